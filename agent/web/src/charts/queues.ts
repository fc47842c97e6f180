// Both buffers mirrored on one time axis: the uplink's above, the downlink's below, their ACK parts darker inside. Both halves
// have one scale, bytes or per cent of each buffer's limit: what looks as large is as large.

import uPlot from 'uplot';

import type { DirectionName, Maybe } from '../api.ts';
import { bytes, percent } from '../format.ts';
import type { History } from '../history.ts';
import { colours } from '../theme.ts';
import { drawMeans, keepFitted, PADDING, plotOf, roundUp, timeAxis, valueAxis } from './axes.ts';

const LEAST_SCALE = 2_000;
// A limit far above what stands in the buffer would squeeze the curve to a line: then it is not shown.
const LIMIT_SHOWN_FROM = 0.2;

export interface Limits {
    up: Maybe<number>;
    down: Maybe<number>;
}

export type Unit = 'bytes' | 'limit';

export class QueueChart {
    private unit: Unit = 'bytes';
    private chart: uPlot | null = null;
    private tops = { up: LEAST_SCALE, down: LEAST_SCALE };
    private limits: Limits = { up: null, down: null };

    constructor(
        private readonly element: HTMLElement,
        private readonly history: History,
    ) {
        keepFitted(element, (width, height) => this.chart?.setSize({ width, height }));
        this.build();
    }

    setLimits(limits: Limits): void {
        this.limits = limits;
    }

    // Per cent needs both limits.
    get canShowPercent(): boolean {
        return Boolean(this.limits.up && this.limits.down);
    }

    setUnit(unit: Unit): void {
        this.unit = unit;
    }

    // Where the plotting area begins and how wide it is, in CSS pixels.
    plot(): { left: number; width: number } {
        return plotOf(this.chart);
    }

    // With the colours of the present theme.
    build(): void {
        this.chart?.destroy();
        const c = colours();
        const area = (scale: string, stroke: string, fill: string, width: number): uPlot.Series => ({
            scale,
            stroke,
            fill,
            width,
            points: { show: false },
            spanGaps: false,
        });
        // Not drawn by itself: what is between two of them is.
        const edge = (scale: string): uPlot.Series => ({ scale, width: 0, points: { show: false }, spanGaps: false });
        const options: uPlot.Options = {
            width: Math.max(this.element.clientWidth, 120),
            height: Math.max(this.element.clientHeight, 120),
            padding: PADDING,
            legend: { show: false },
            cursor: { show: false },
            scales: {
                x: { time: false, auto: false },
                up: { auto: false },
                down: { auto: false },
            },
            axes: [
                timeAxis(c),
                valueAxis(
                    c,
                    'up',
                    () => [-1, -0.5, 0, 0.5, 1].map((part) => part * this.tops.up),
                    (_, splits) => splits.map((value) => this.label(value)),
                ),
            ],
            series: [
                {},
                area('up', c.up, c.upFill, 1.6),
                area('up', 'transparent', c.upAck, 0),
                area('down', c.down, c.downFill, 1.6),
                area('down', 'transparent', c.downAck, 0),
                edge('up'),
                edge('up'),
                edge('down'),
                edge('down'),
            ],
            bands: [
                { series: [5, 6], fill: c.upFill },
                { series: [7, 8], fill: c.downFill },
            ],
            hooks: {
                drawClear: [(chart) => drawMeans(chart, this.history.meansUntil, c.means)],
                draw: [(chart) => this.drawLines(chart)],
            },
        };
        this.chart = new uPlot(options, this.history.queues.columns as uPlot.AlignedData, this.element);
    }

    draw(from: number, to: number): void {
        const chart = this.chart;
        if (!chart) return;
        const up = this.top([1, 5], this.limits.up, 1, from);
        const down = this.top([3, 8], this.limits.down, -1, from);
        const { up: upLimit, down: downLimit } = this.limits;
        if (this.percent && upLimit && downLimit) {
            const part = Math.max(up / upLimit, down / downLimit, 1.04);
            this.tops = { up: part * upLimit, down: part * downLimit };
        } else {
            this.tops = { up: Math.max(up, down), down: Math.max(up, down) };
        }
        chart.batch(() => {
            chart.setData(this.history.queues.columns as uPlot.AlignedData, false);
            chart.setScale('x', { min: from, max: to });
            chart.setScale('up', { min: -this.tops.up, max: this.tops.up });
            chart.setScale('down', { min: -this.tops.down, max: this.tops.down });
        });
    }

    // In words: what the full height of each half stands for.
    scale(): Record<DirectionName, string> {
        const of = (name: DirectionName) => {
            const limit = this.limits[name];
            return this.percent && limit ? percent(this.tops[name] / limit) : bytes(this.tops[name]);
        };
        return { up: of('up'), down: of('down') };
    }

    private get percent(): boolean {
        return this.unit === 'limit' && this.canShowPercent;
    }

    // A mark of the upper half's scale; below the axis the lower half's is the same.
    private label(value: number): string {
        const size = Math.abs(value);
        return this.percent && this.limits.up ? percent(size / this.limits.up) : bytes(size);
    }

    private top(shown: number[], limit: Maybe<number>, sign: number, from: number): number {
        const { columns, times } = this.history.queues;
        let peak = 0;
        for (let index = times.length - 1; index >= 0 && (times[index] as number) >= from; index -= 1) {
            for (const column of shown) peak = Math.max(peak, sign * (columns[column]?.[index] ?? 0));
        }
        if (limit && peak >= limit * LIMIT_SHOWN_FROM) peak = Math.max(peak, limit * 1.04);
        return roundUp(Math.max(peak, LEAST_SCALE));
    }

    // The zero line, and the buffers' limits where they are in sight.
    private drawLines(chart: uPlot): void {
        const c = colours();
        const { ctx, bbox } = chart;
        const line = (y: number, stroke: string, dash: number[], label: string, above: boolean) => {
            ctx.save();
            ctx.strokeStyle = stroke;
            ctx.fillStyle = stroke;
            ctx.lineWidth = devicePixelRatio * 1.3;
            ctx.setLineDash(dash.map((part) => part * devicePixelRatio));
            ctx.beginPath();
            ctx.moveTo(bbox.left, y);
            ctx.lineTo(bbox.left + bbox.width, y);
            ctx.stroke();
            ctx.font = `${11 * devicePixelRatio}px system-ui, "DejaVu Sans", sans-serif`;
            ctx.textAlign = 'left';
            ctx.textBaseline = above ? 'bottom' : 'top';
            ctx.fillText(label, bbox.left + 6 * devicePixelRatio, y + (above ? -2 : 3) * devicePixelRatio);
            ctx.restore();
        };
        const { up, down } = this.limits;
        if (up && up <= this.tops.up) line(chart.valToPos(up, 'up', true), c.up, [6, 5], 'full', false);
        if (down && down <= this.tops.down) line(chart.valToPos(-down, 'down', true), c.down, [6, 5], 'full', true);
        line(chart.valToPos(0, 'up', true), c.quiet, [], '', true);
    }
}
