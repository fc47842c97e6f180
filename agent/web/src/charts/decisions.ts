// What was decided about a rate that is found, on the time axis of the rate: a lane that is filled above its middle while the rate
// is raised, below it while it is lowered, on the whole height where something else explains a wait or a loss, and on a thin line
// where it is held. So place says it as well as colour.

import type { DecisionName, DirectionName } from '../api.ts';
import type { History } from '../history.ts';
import { colours } from '../theme.ts';

// Top and height of each in parts of the lane.
const PLACES: Record<DecisionName, [number, number]> = {
    raise: [0, 0.5],
    lower: [0.5, 0.5],
    drain: [0.5, 0.5],
    policed: [0, 1],
    route: [0, 1],
    hold: [0.42, 0.16],
    idle: [0.47, 0.06],
};

export class DecisionStrip {
    private readonly canvas = document.createElement('canvas');

    constructor(
        element: HTMLElement,
        private readonly history: History,
        private readonly direction: DirectionName,
    ) {
        element.append(this.canvas);
    }

    draw(from: number, to: number, left: number, width: number): void {
        const { canvas } = this;
        const scale = devicePixelRatio;
        const full = { width: canvas.clientWidth, height: canvas.clientHeight };
        if (canvas.width !== Math.round(full.width * scale) || canvas.height !== Math.round(full.height * scale)) {
            canvas.width = Math.round(full.width * scale);
            canvas.height = Math.round(full.height * scale);
        }
        const context = canvas.getContext('2d');
        if (!context) return;
        const c = colours();
        context.setTransform(scale, 0, 0, scale, 0, 0);
        context.clearRect(0, 0, full.width, full.height);
        const [top, lane] = [2, full.height - 4];
        context.fillStyle = c.grid;
        context.fillRect(left, top, width, lane);
        const x = (at: number) => left + ((at - from) / (to - from)) * width;
        for (const run of this.history.decisions[this.direction]) {
            if (run.to < from || run.from > to || run.what === null) continue;
            const begin = Math.max(x(run.from), left);
            const length = Math.max(Math.min(x(run.to), left + width) - begin, 0.7);
            const [above, height] = PLACES[run.what];
            context.fillStyle = c.decisions[run.what];
            context.fillRect(begin, Math.round(top + above * lane), length, Math.max(Math.round(height * lane), 1));
        }
        context.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
        context.textAlign = 'right';
        context.textBaseline = 'middle';
        context.fillStyle = c.quiet;
        context.fillText('decision', left - 6, top + lane / 2);
    }
}
