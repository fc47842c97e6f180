// What was decided about a rate that is found, on the time axis of the rate: a lane that is filled above its middle while the rate
// is raised, below it while it is lowered, on the whole height in an outage, and on a thin line where it is
// held. So place says it as well as colour.

import type { DecisionName, DirectionName } from '../api.ts';
import type { History } from '../history.ts';
import { type Lane, Strip } from './strip.ts';

// Top and height of each in parts of the lane.
const PLACES: Record<DecisionName, [number, number]> = {
    raise: [0, 0.5],
    lower: [0.5, 0.5],
    drain: [0.5, 0.5],
    outage: [0, 1],
    hold: [0.42, 0.16],
};

export class DecisionStrip {
    private readonly strip: Strip;

    constructor(
        element: HTMLElement,
        private readonly history: History,
        private readonly direction: DirectionName,
    ) {
        this.strip = new Strip(element);
    }

    draw(from: number, to: number, plot: { left: number; width: number }): void {
        const lanes = (height: number): Lane[] => [{ name: 'decision', top: 2, height: height - 4 }];
        this.strip.draw([from, to], plot, this.history.decisions[this.direction], lanes, (context, c, what, box, [lane]) => {
            if (!lane) return;
            const [above, height] = PLACES[what];
            context.fillStyle = c.decisions[what];
            context.fillRect(box.left, Math.round(lane.top + above * lane.height), box.width, Math.max(Math.round(height * lane.height), 1));
        });
    }
}
