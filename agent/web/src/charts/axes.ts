// What all charts share: a time axis whose marks stand still while the data moves under them.

import type uPlot from 'uplot';

import type { Colours } from '../theme.ts';

// Width of the value axis: all charts of a column line up.
export const AXIS_WIDTH = 74;
// Room for the last label on the right.
export const PADDING: [number, number, number, number] = [8, 18, 0, 0];

export const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

// Marks at fixed distances from the right edge, labelled with seconds ago.
export function timeAxis(colours: Colours): uPlot.Axis {
    return {
        stroke: colours.quiet,
        font: FONT,
        grid: { stroke: colours.grid, width: 1 },
        ticks: { show: false },
        size: 26,
        gap: 4,
        splits: (chart) => {
            const { min, max } = chart.scales['x'] as { min: number; max: number };
            const step = markStep(max - min, chart.width);
            const marks = [];
            for (let ago = Math.floor((max - min) / step) * step; ago >= 0; ago -= step) marks.push(max - ago);
            return marks;
        },
        values: (chart, splits) => {
            const max = chart.scales['x']?.max ?? 0;
            return splits.map((at) => (max - at < 0.01 ? 'now' : `−${ago(max - at)}`));
        },
    };
}

function ago(seconds: number): string {
    return seconds < 119 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

function markStep(span: number, width: number): number {
    const few = width < 420;
    if (span <= 10) return few ? 5 : 2;
    if (span <= 30) return few ? 10 : 5;
    if (span <= 60) return few ? 20 : 10;
    return span <= 300 ? (few ? 120 : 60) : few ? 300 : 180;
}

export function valueAxis(
    colours: Colours,
    scale: string,
    splits: uPlot.Axis.Splits,
    values: (chart: uPlot, splits: number[]) => string[],
): uPlot.Axis {
    return {
        scale,
        splits,
        values,
        stroke: colours.quiet,
        font: FONT,
        grid: { stroke: colours.grid, width: 1 },
        ticks: { show: false },
        size: AXIS_WIDTH,
        gap: 6,
    };
}

// A small chart: no legend, a value axis with marks at nothing, half and `top`.
export function smallChart(element: HTMLElement, c: Colours, top: () => number, format: (value: number) => string, more: Pick<uPlot.Options, 'series' | 'hooks'>): uPlot.Options {
    return {
        width: Math.max(element.clientWidth, 120),
        height: Math.max(element.clientHeight, 80),
        padding: PADDING,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: false, auto: false }, y: { auto: false } },
        axes: [
            timeAxis(c),
            valueAxis(
                c,
                'y',
                () => [0, top() / 2, top()],
                (_, splits) => splits.map(format),
            ),
        ],
        ...more,
    };
}

// Its data from one time to another, up to `top`.
export function drawSmall(chart: uPlot, data: uPlot.AlignedData, from: number, to: number, top: number): void {
    chart.batch(() => {
        chart.setData(data, false);
        chart.setScale('x', { min: from, max: to });
        chart.setScale('y', { min: 0, max: top });
    });
}

// Another ground behind means of 10 s, which end at `until`: next to values of 10 ms they would look like a level that stood still.
export function drawMeans(chart: uPlot, until: number, colour: string): void {
    const { ctx, bbox } = chart;
    const width = Math.min(chart.valToPos(until, 'x', true) - bbox.left, bbox.width);
    if (!(width > 0)) return;
    ctx.save();
    ctx.fillStyle = colour;
    ctx.fillRect(bbox.left, bbox.top, width, bbox.height);
    ctx.restore();
}

// The next number above `value` whose half reads well too.
export function roundUp(value: number): number {
    if (!(value > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    const factor = [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10].find((factor) => factor * power >= value * 0.9999) ?? 10;
    return factor * power;
}

// Fits a chart to its element, now and whenever the element changes.
export function keepFitted(element: HTMLElement, fit: (width: number, height: number) => void): void {
    new ResizeObserver(() => {
        if (element.clientWidth > 0) fit(element.clientWidth, element.clientHeight);
    }).observe(element);
}

// Where the plot is within its element, in CSS pixels, for what has the same time axis.
export function plotOf(chart: uPlot | null): { left: number; width: number } {
    const box = chart?.bbox;
    return box ? { left: box.left / devicePixelRatio, width: box.width / devicePixelRatio } : { left: 0, width: 0 };
}
