// Where the delay comes from, over time: the segments on top of each other, from home at the bottom to the far end at the top.

import uPlot from 'uplot';

import type { Delay } from '../api.ts';
import * as format from '../format.ts';
import { type Colours, colours } from '../theme.ts';
import { keepFitted, PADDING, roundUp, timeAxis, valueAxis } from './axes.ts';

export const SEGMENTS = ['home', 'gateway', 'uplink', 'downlink', 'beyond'] as const;
export type SegmentName = (typeof SEGMENTS)[number];

// A quarter of an hour, one row each second.
const ROWS = 900;
// Seconds without a row that are a gap.
const GAP_S = 3;

// Base and wait; null where unknown.
export function delayOf(delay: Delay, name: SegmentName): number | null {
    const known = delay.segments[name];
    return known?.base_s == null || known.queue_s == null ? null : known.base_s + known.queue_s;
}

export class DelayChart {
    private chart: uPlot | null = null;
    private top = 0.05;
    private readonly times: number[] = [];
    // For each segment its upper edge: what is unknown adds nothing.
    private readonly edges: (number | null)[][] = SEGMENTS.map(() => []);

    constructor(private readonly element: HTMLElement) {
        keepFitted(element, (width, height) => this.chart?.setSize({ width, height }));
        this.build();
    }

    add(at: number, delay: Delay): void {
        const last = this.times.at(-1);
        if (last !== undefined && at <= last) {
            if (at === last) return;
            this.clear();
        }
        if (last !== undefined && at - last > GAP_S) this.push((at + last) / 2, null);
        this.push(at, delay);
        const excess = this.times.length - ROWS;
        if (excess > 0) for (const column of [this.times, ...this.edges]) column.splice(0, excess);
    }

    clear(): void {
        for (const column of [this.times, ...this.edges]) column.length = 0;
    }

    private push(at: number, delay: Delay | null): void {
        let edge = 0;
        this.times.push(at);
        SEGMENTS.forEach((name, index) => {
            const own = delay && delayOf(delay, name);
            edge += own ?? 0;
            this.edges[index]?.push(own == null ? null : edge);
        });
    }

    build(): void {
        this.chart?.destroy();
        const c = colours();
        const options: uPlot.Options = {
            width: Math.max(this.element.clientWidth, 120),
            height: Math.max(this.element.clientHeight, 80),
            padding: PADDING,
            legend: { show: false },
            cursor: { show: false },
            scales: { x: { time: false, auto: false }, y: { auto: false } },
            axes: [
                timeAxis(c),
                valueAxis(
                    c,
                    'y',
                    () => [0, this.top / 2, this.top],
                    (_, splits) => splits.map((value) => format.seconds(value)),
                ),
            ],
            // The highest edge first: what is lower is drawn over it.
            series: [{}, ...[...SEGMENTS].reverse().map((name) => series(name, c))],
        };
        this.chart = new uPlot(options, this.data(), this.element);
    }

    draw(from: number, to: number): void {
        const chart = this.chart;
        if (!chart) return;
        const shown = this.edges.flatMap((edges) => edges.filter((_, index) => (this.times[index] as number) >= from));
        this.top = roundUp(Math.max(0.05, ...shown.map((edge) => edge ?? 0)));
        chart.batch(() => {
            chart.setData(this.data(), false);
            chart.setScale('x', { min: from, max: to });
            chart.setScale('y', { min: 0, max: this.top });
        });
    }

    private data(): uPlot.AlignedData {
        return [this.times, ...[...this.edges].reverse()] as uPlot.AlignedData;
    }
}

function series(name: SegmentName, c: Colours): uPlot.Series {
    const colour = c.segments[name];
    return { stroke: colour, fill: colour, width: 1, points: { show: false }, spanGaps: false };
}
