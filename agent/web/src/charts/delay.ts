// Where the delay comes from, over time: the segments on top of each other, from home at the bottom to the far end at the top.

import uPlot from 'uplot';

import type { Delay } from '../api.ts';
import * as format from '../format.ts';
import { type Colours, colours } from '../theme.ts';
import { drawSmall, keepFitted, roundUp, smallChart } from './axes.ts';

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
        // The highest edge first: what is lower is drawn over it.
        const options = smallChart(this.element, c, () => this.top, format.seconds, { series: [{}, ...[...SEGMENTS].reverse().map((name) => series(name, c))] });
        this.chart = new uPlot(options, this.data(), this.element);
    }

    draw(from: number, to: number): void {
        const chart = this.chart;
        if (!chart) return;
        let peak = 0.05;
        for (let index = this.times.length - 1; index >= 0 && (this.times[index] as number) >= from; index -= 1) {
            for (const edges of this.edges) peak = Math.max(peak, edges[index] ?? 0);
        }
        this.top = roundUp(peak);
        drawSmall(chart, this.data(), from, to, this.top);
    }

    private data(): uPlot.AlignedData {
        return [this.times, ...[...this.edges].reverse()] as uPlot.AlignedData;
    }
}

function series(name: SegmentName, c: Colours): uPlot.Series {
    const colour = c.segments[name];
    return { stroke: colour, fill: colour, width: 1, points: { show: false }, spanGaps: false };
}
