// The last minute, in columns that uPlot draws as they are. Bounded: what is older than KEPT_S is cut off.

import type { Maybe, PhaseName, Tick } from './api.ts';

export type Column = (number | null)[];

// The longest window that can be chosen, and a little more for the frame in which it moves.
export const LONGEST_WINDOW_S = 60;
const KEPT_S = LONGEST_WINDOW_S + 2;
// Cutting moves everything that stays, so it is done for so many entries at once.
const SLACK = 500;
// A pause between ticks that counts as a gap, in ticks.
const GAP_TICKS = 2.5;

class Table {
    readonly columns: Column[];

    constructor(width: number) {
        this.columns = Array.from({ length: width + 1 }, () => []);
    }

    get times(): Column {
        return this.columns[0] as Column;
    }

    push(at: number, values: Maybe<number>[]): void {
        this.times.push(at);
        values.forEach((value, index) => this.columns[index + 1]?.push(value ?? null));
    }

    trim(oldest: number): void {
        const times = this.times;
        let cut = 0;
        while (cut < times.length && (times[cut] as number) < oldest) cut += 1;
        if (cut < Math.min(SLACK, times.length)) return;
        for (const column of this.columns) column.splice(0, cut);
    }

    clear(): void {
        for (const column of this.columns) column.length = 0;
    }
}

export interface PhaseRun {
    from: number;
    to: number;
    phase: PhaseName | null;
}

export class History {
    // up total, up ACKs, down total, down ACKs; the downlink's are negative: they hang below the axis.
    readonly queues = new Table(4);
    // up bit/s, down bit/s, RTT to the outside, RTT to the home; one row for each tick.
    readonly rates = new Table(4);
    readonly phases: PhaseRun[] = [];
    // Ticks that this page missed because it was too slow.
    skipped = 0;
    // While the picture is paused: nothing from here on is cut off. Whoever sets it takes it back in time.
    heldFrom: number | null = null;
    // When the newest bucket ended, on the agent's clock.
    newest: number | null = null;

    add(tick: Tick): void {
        const length = tick.up.queue_bytes?.length ?? tick.down.queue_bytes?.length ?? 1;
        const lasted = length * tick.step_s;
        if (this.newest !== null && tick.at_s <= this.newest - lasted / 2) {
            // Another boot of the machine, or another agent: its clock has nothing to do with ours.
            if (tick.at_s < this.newest - 2 * lasted) this.clear();
            else return;
        }
        const begin = tick.at_s - lasted;
        if (this.newest !== null && begin - this.newest > GAP_TICKS * lasted) this.gap(this.newest, begin);
        for (let index = 0; index < length; index += 1) {
            const at = begin + (index + 1) * tick.step_s;
            const negative = (value: Maybe<number>) => (value == null ? null : -value);
            this.queues.push(at, [
                tick.up.queue_bytes?.[index],
                tick.up.queue_ack_bytes?.[index],
                negative(tick.down.queue_bytes?.[index]),
                negative(tick.down.queue_ack_bytes?.[index]),
            ]);
        }
        this.rates.push(tick.at_s, [
            tick.up.throughput_bps,
            tick.down.throughput_bps,
            tick.up.rtt_s,
            tick.down.rtt_s,
        ]);
        this.addPhase(this.newest === null ? begin : Math.max(begin, this.newest), tick.at_s, tick.phase ?? null);
        this.skipped += tick.skipped;
        this.newest = tick.at_s;
        this.trim(Math.min(tick.at_s - KEPT_S, this.heldFrom ?? Infinity));
    }

    clear(): void {
        this.queues.clear();
        this.rates.clear();
        this.phases.length = 0;
        this.newest = null;
    }

    private gap(from: number, to: number): void {
        const middle = (from + to) / 2;
        this.queues.push(middle, [null, null, null, null]);
        this.rates.push(middle, [null, null, null, null]);
        this.addPhase(from, to, null);
    }

    private addPhase(from: number, to: number, phase: PhaseName | null): void {
        const last = this.phases.at(-1);
        if (last && last.phase === phase && from - last.to < 0.25) last.to = to;
        else this.phases.push({ from, to, phase });
    }

    private trim(oldest: number): void {
        this.queues.trim(oldest);
        this.rates.trim(oldest);
        const cut = this.phases.findIndex((run) => run.to >= oldest);
        if (cut > 0) this.phases.splice(0, cut);
    }
}
