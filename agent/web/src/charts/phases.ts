// The phase strip under the queues, on the same time axis: two lanes, filled while the buffer of that direction holds a
// standing queue. So place says it as well as colour: above uplink, below downlink, both is balanced, none is idle.

import type { PhaseName } from '../api.ts';
import type { History } from '../history.ts';
import { type Lane, Strip } from './strip.ts';

// The lane that each fills: 0 is the uplink's, 1 the downlink's.
const LANES: Partial<Record<PhaseName, number[]>> = { uplink_bound: [0], downlink_bound: [1], balanced: [0, 1] };

export class PhaseStrip {
    private readonly strip: Strip;

    constructor(
        element: HTMLElement,
        private readonly history: History,
    ) {
        this.strip = new Strip(element);
    }

    draw(from: number, to: number, plot: { left: number; width: number }): void {
        const lanes = (height: number): Lane[] => {
            const lane = (height - 8) / 2;
            return [
                { name: 'uplink', top: 2, height: lane },
                { name: 'downlink', top: 6 + lane, height: lane },
            ];
        };
        this.strip.draw([from, to], plot, this.history.phases, lanes, (context, c, what, box, all) => {
            context.fillStyle = c.phases[what];
            for (const lane of (LANES[what] ?? []).map((index) => all[index])) {
                if (lane) context.fillRect(box.left, lane.top, box.width, lane.height);
            }
        });
    }
}
