// A strip on the time axis of the chart above it: lanes, and what lasted from when to when drawn into them.

import type { Run } from '../history.ts';
import { type Colours, colours } from '../theme.ts';
import { FONT } from './axes.ts';

export interface Lane {
    name: string;
    top: number;
    height: number;
}

export class Strip {
    private readonly canvas = document.createElement('canvas');

    constructor(element: HTMLElement) {
        element.append(this.canvas);
    }

    // Draws the lanes with their names, and the runs between the two times into them. `lanesOf` places the lanes in a strip of that height.
    draw<What>(
        [from, to]: [number, number],
        { left, width }: { left: number; width: number },
        runs: Iterable<Run<What>>,
        lanesOf: (height: number) => Lane[],
        drawRun: (context: CanvasRenderingContext2D, colours: Colours, what: What, box: { left: number; width: number }, lanes: Lane[]) => void,
    ): void {
        const context = this.cleared();
        if (!context) return;
        const c = colours();
        const lanes = lanesOf(this.canvas.clientHeight);
        context.fillStyle = c.grid;
        for (const lane of lanes) context.fillRect(left, lane.top, width, lane.height);
        const x = (at: number) => left + ((at - from) / (to - from)) * width;
        for (const run of runs) {
            if (run.to < from || run.from > to || run.what === null) continue;
            const begin = Math.max(x(run.from), left);
            const box = { left: begin, width: Math.max(Math.min(x(run.to), left + width) - begin, 0.7) };
            drawRun(context, c, run.what, box, lanes);
        }
        context.font = FONT;
        context.textAlign = 'right';
        context.textBaseline = 'middle';
        context.fillStyle = c.quiet;
        for (const lane of lanes) context.fillText(lane.name, left - 6, lane.top + lane.height / 2);
    }

    // The canvas as large as it is shown, with nothing on it, in CSS pixels.
    private cleared(): CanvasRenderingContext2D | null {
        const { canvas } = this;
        const scale = devicePixelRatio;
        const full = { width: canvas.clientWidth, height: canvas.clientHeight };
        if (canvas.width !== Math.round(full.width * scale) || canvas.height !== Math.round(full.height * scale)) {
            canvas.width = Math.round(full.width * scale);
            canvas.height = Math.round(full.height * scale);
        }
        const context = canvas.getContext('2d');
        context?.setTransform(scale, 0, 0, scale, 0, 0);
        context?.clearRect(0, 0, full.width, full.height);
        return context;
    }
}
