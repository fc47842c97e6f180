// The phase strip under the queues, on the same time axis: two lanes, filled while the buffer of that direction holds a
// standing queue. So place says it as well as colour: above uplink, below downlink, both is balanced, none is idle.

import type { PhaseName } from '../api.ts';
import type { History } from '../history.ts';
import { colours } from '../theme.ts';

const UP: PhaseName[] = ['uplink_bound', 'balanced'];
const DOWN: PhaseName[] = ['downlink_bound', 'balanced'];

export class PhaseStrip {
    private readonly canvas = document.createElement('canvas');

    constructor(
        element: HTMLElement,
        private readonly history: History,
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
        const lane = (full.height - 8) / 2;
        context.fillStyle = c.grid;
        context.fillRect(left, 2, width, lane);
        context.fillRect(left, 6 + lane, width, lane);
        const x = (at: number) => left + ((at - from) / (to - from)) * width;
        for (const run of this.history.phases) {
            if (run.to < from || run.from > to || run.what === null) continue;
            const begin = Math.max(x(run.from), left);
            const length = Math.max(Math.min(x(run.to), left + width) - begin, 0.7);
            context.fillStyle = c.phases[run.what];
            if (UP.includes(run.what)) context.fillRect(begin, 2, length, lane);
            if (DOWN.includes(run.what)) context.fillRect(begin, 6 + lane, length, lane);
        }
        context.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
        context.textAlign = 'right';
        context.textBaseline = 'middle';
        context.fillStyle = c.quiet;
        context.fillText('uplink', left - 6, 2 + lane / 2);
        context.fillText('downlink', left - 6, 6 + lane * 1.5);
    }
}
