// A small chart of one or two figures of each tick, with the link's rate as a line to hold them against.

import uPlot from 'uplot';

import type { Maybe } from '../api.ts';
import type { History } from '../history.ts';
import { type Colours, colours } from '../theme.ts';
import { drawMeans, drawSmall, keepFitted, plotOf, roundUp, smallChart } from './axes.ts';

interface Curve {
    // Column of `History.rates`.
    column: number;
    colour: 'up' | 'down';
    dashed?: boolean;
    // Down to the axis; a chart of one curve always is.
    filled?: boolean;
    // No line, only what is below it.
    lineless?: boolean;
}

export class LineChart {
    private chart: uPlot | null = null;
    private top = 1;
    private mark: number | null = null;

    constructor(
        private readonly element: HTMLElement,
        private readonly history: History,
        private readonly curves: Curve[],
        private readonly format: (value: number) => string,
        private readonly least: number,
    ) {
        keepFitted(element, (width, height) => this.chart?.setSize({ width, height }));
        this.build();
    }

    // A level to draw as a line, such as the link's rate.
    setMark(mark: Maybe<number>): void {
        this.mark = mark ?? null;
    }

    build(): void {
        this.chart?.destroy();
        const c = colours();
        const options = smallChart(this.element, c, () => this.top, (value) => this.format(value), {
            series: [{}, ...this.curves.map((curve) => series(curve, c, this.curves.length === 1 || curve.filled === true))],
            hooks: {
                drawClear: [(chart) => drawMeans(chart, this.history.meansUntil, c.means)],
                draw: [(chart) => this.drawMark(chart)],
            },
        });
        this.chart = new uPlot(options, this.data(), this.element);
    }

    // Where the plot is within the element, for what has the same time axis.
    plot(): { left: number; width: number } {
        return plotOf(this.chart);
    }

    draw(from: number, to: number): void {
        const chart = this.chart;
        if (!chart) return;
        const { times, columns } = this.history.rates;
        let peak = (this.mark ?? 0) * 1.04;
        for (let index = times.length - 1; index >= 0 && (times[index] as number) >= from; index -= 1) {
            for (const { column } of this.curves) peak = Math.max(peak, columns[column]?.[index] ?? 0);
        }
        this.top = roundUp(Math.max(peak, this.least));
        drawSmall(chart, this.data(), from, to, this.top);
    }

    private data(): uPlot.AlignedData {
        const { columns } = this.history.rates;
        return [columns[0], ...this.curves.map(({ column }) => columns[column])] as uPlot.AlignedData;
    }

    private drawMark(chart: uPlot): void {
        if (this.mark === null) return;
        const { ctx, bbox } = chart;
        const y = chart.valToPos(this.mark, 'y', true);
        ctx.save();
        ctx.strokeStyle = colours().quiet;
        ctx.fillStyle = colours().quiet;
        ctx.lineWidth = devicePixelRatio * 1.3;
        ctx.setLineDash([6 * devicePixelRatio, 5 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
        ctx.font = `${11 * devicePixelRatio}px system-ui, "DejaVu Sans", sans-serif`;
        ctx.textAlign = 'left';
        ctx.textBaseline = 'top';
        ctx.fillText('link rate', bbox.left + 6 * devicePixelRatio, y + 3 * devicePixelRatio);
        ctx.restore();
    }
}

function series(curve: Curve, c: Colours, filled: boolean): uPlot.Series {
    const stroke = curve.colour === 'up' ? c.up : c.down;
    const shape: uPlot.Series = { stroke, width: 1.8, points: { show: false }, spanGaps: false };
    if (filled) shape.fill = curve.colour === 'up' ? c.upFill : c.downFill;
    if (curve.lineless) shape.width = 0;
    if (curve.dashed) shape.dash = [5, 4];
    return shape;
}
