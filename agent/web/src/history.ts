// The last minute as it came, and the quarter of an hour before it in the agent's steps of 10 s, in columns that uPlot draws as
// they are. Bounded: what is older than KEPT_S is cut off, and the agent keeps 90 steps.

import { DECISIONS, type DecisionName, DIRECTIONS, type DirectionName, type Maybe, PHASES, type PhaseName, type Step, type Tick } from './api.ts';

export type Column = (number | null)[];

// The longest window that is drawn from ticks, and a little more for the frame in which it moves. Longer ones are drawn from steps.
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

// What held for a while; null: nothing is known of it.
export interface Run<T> {
    from: number;
    to: number;
    what: T | null;
}

function addRun<T>(runs: Run<T>[], from: number, to: number, what: T | null): void {
    const last = runs.at(-1);
    if (last && last.what === what && from - last.to < 0.25) last.to = to;
    else runs.push({ from, to, what });
}

function trimRuns<T>(runs: Run<T>[], oldest: number): void {
    const cut = runs.findIndex((run) => run.to >= oldest);
    if (cut > 0) runs.splice(0, cut);
}

// The most and the least that may be in the buffer; nothing where the level is exact, or its error not known.
function band(level: Maybe<number>, uncertainty: Maybe<number>): [number | null, number | null] {
    if (level == null || !uncertainty) return [null, null];
    return [level + uncertainty, Math.max(level - uncertainty, 0)];
}

class Course {
    // up total, up ACKs, down total, down ACKs, then the upper and the lower edge of each band of uncertainty; the
    // downlink's are negative: they hang below the axis.
    readonly queues = new Table(8);
    // up bit/s, down bit/s, RTT to the outside, RTT to the home, then the shaper's found rate and the wait behind it, up and
    // down; one row for each tick.
    readonly rates = new Table(8);
    readonly phases: Run<PhaseName>[] = [];
    readonly decisions: Record<DirectionName, Run<DecisionName>[]> = { up: [], down: [] };

    clear(): void {
        this.queues.clear();
        this.rates.clear();
        this.phases.length = 0;
        for (const name of DIRECTIONS) this.decisions[name].length = 0;
    }

    gap(from: number, to: number): void {
        const middle = (from + to) / 2;
        this.queues.push(middle, Array<null>(8).fill(null));
        this.rates.push(middle, Array<null>(8).fill(null));
        addRun(this.phases, from, to, null);
        for (const name of DIRECTIONS) addRun(this.decisions[name], from, to, null);
    }

    // A step as a level that lasts from its begin, or from what is there already, to its end.
    addStep(step: Step, after: number): void {
        const begin = Math.max(step.at_s - step.lasted_s, after);
        const down = (value: Maybe<number>) => (value == null ? null : -value);
        const [upMost, upLeast] = band(step.up.queue_bytes, step.up.queue_uncertainty_bytes);
        const [downMost, downLeast] = band(step.down.queue_bytes, step.down.queue_uncertainty_bytes);
        for (const at of [begin + 0.001, step.at_s]) {
            this.queues.push(at, [
                step.up.queue_bytes,
                step.up.queue_ack_bytes,
                down(step.down.queue_bytes),
                down(step.down.queue_ack_bytes),
                upMost,
                upLeast,
                down(downLeast),
                down(downMost),
            ]);
            this.rates.push(at, [
                step.up.throughput_bps,
                step.down.throughput_bps,
                step.up.rtt_s,
                step.down.rtt_s,
                ...DIRECTIONS.flatMap((name) => [step[name].auto?.rate_bps, step[name].auto?.waits_behind_s]),
            ]);
        }
        // The phase that held longest.
        const share = step.phase_share;
        const longest = share ? PHASES.reduce((best, phase) => (share[phase] > share[best] ? phase : best)) : null;
        addRun(this.phases, begin, step.at_s, longest);
        for (const name of DIRECTIONS) this.addDecisions(name, begin, step.at_s, step[name].auto?.decision_share);
    }

    // The order within a step is not known: each decision has its share of the width.
    private addDecisions(name: DirectionName, from: number, to: number, share: Maybe<Partial<Record<DecisionName, number>>>): void {
        if (!share) return addRun(this.decisions[name], from, to, null);
        let at = from;
        for (const decision of DECISIONS) {
            const end = at + (share[decision] ?? 0) * (to - from);
            if (end > at) addRun(this.decisions[name], at, end, decision);
            at = end;
        }
    }

    trim(oldest: number): void {
        this.queues.trim(oldest);
        this.rates.trim(oldest);
        trimRuns(this.phases, oldest);
        for (const name of DIRECTIONS) trimRuns(this.decisions[name], oldest);
    }
}

export class History {
    private readonly fine = new Course();
    private readonly coarse = new Course();
    // Which of them is drawn.
    long = false;
    // Ticks that this page missed because it was too slow.
    skipped = 0;
    // While the picture is paused: nothing from here on is cut off. Whoever sets it takes it back in time.
    heldFrom: number | null = null;
    private stepsEnd = -Infinity;
    // When the newest bucket ended, on the agent's clock.
    newest: number | null = null;

    // Where means of 10 s end and ticks begin in what is drawn.
    get meansUntil(): number {
        return this.long ? (this.coarse.queues.times.at(-1) ?? -Infinity) : this.stepsEnd;
    }

    get queues(): Table {
        return (this.long ? this.coarse : this.fine).queues;
    }

    get rates(): Table {
        return (this.long ? this.coarse : this.fine).rates;
    }

    get phases(): Run<PhaseName>[] {
        return (this.long ? this.coarse : this.fine).phases;
    }

    get decisions(): Record<DirectionName, Run<DecisionName>[]> {
        return (this.long ? this.coarse : this.fine).decisions;
    }

    // What the agent remembers: all of it for the long windows, and for the short ones what they lack.
    remember(steps: Step[]): void {
        this.coarse.clear();
        let before: number | null = null;
        for (const step of steps) {
            const begin = step.at_s - step.lasted_s;
            if (before !== null && begin - before > 1) this.coarse.gap(before, begin);
            this.coarse.addStep(step, before ?? -Infinity);
            before = step.at_s;
        }
        const oldest = (before ?? 0) - KEPT_S;
        if (this.newest !== null) return;
        for (const step of steps) {
            const begin = step.at_s - step.lasted_s;
            if (step.at_s < oldest) continue;
            if (this.newest !== null && begin - this.newest > 1) this.fine.gap(this.newest, begin);
            this.fine.addStep(step, this.newest ?? -Infinity);
            this.newest = step.at_s;
            this.stepsEnd = step.at_s;
        }
    }

    add(tick: Tick): void {
        const length = tick.up.queue_bytes?.length ?? tick.down.queue_bytes?.length ?? 1;
        const lasted = length * tick.step_s;
        if (this.newest !== null && tick.at_s <= this.newest - lasted / 2) {
            // Another boot of the machine, or another agent: its clock has nothing to do with ours.
            if (tick.at_s < this.newest - 2 * lasted) this.clear();
            else return;
        }
        const begin = tick.at_s - lasted;
        if (this.newest !== null && begin - this.newest > GAP_TICKS * lasted) this.fine.gap(this.newest, begin);
        for (let index = 0; index < length; index += 1) {
            const at = begin + (index + 1) * tick.step_s;
            const negative = (value: Maybe<number>) => (value == null ? null : -value);
            const [upMost, upLeast] = band(tick.up.queue_bytes?.[index], tick.up.queue_uncertainty_bytes?.[index]);
            const [downMost, downLeast] = band(tick.down.queue_bytes?.[index], tick.down.queue_uncertainty_bytes?.[index]);
            this.fine.queues.push(at, [
                tick.up.queue_bytes?.[index],
                tick.up.queue_ack_bytes?.[index],
                negative(tick.down.queue_bytes?.[index]),
                negative(tick.down.queue_ack_bytes?.[index]),
                upMost,
                upLeast,
                negative(downLeast),
                negative(downMost),
            ]);
        }
        this.fine.rates.push(tick.at_s, [
            tick.up.throughput_bps,
            tick.down.throughput_bps,
            tick.up.rtt_s,
            tick.down.rtt_s,
            ...DIRECTIONS.flatMap((name) => [tick[name].auto?.rate_bps, tick[name].auto?.waits_behind_s]),
        ]);
        const since = this.newest === null ? begin : Math.max(begin, this.newest);
        addRun(this.fine.phases, since, tick.at_s, tick.phase ?? null);
        for (const name of DIRECTIONS) addRun(this.fine.decisions[name], since, tick.at_s, tick[name].auto?.decision ?? null);
        this.skipped += tick.skipped;
        this.newest = tick.at_s;
        this.fine.trim(Math.min(tick.at_s - KEPT_S, this.heldFrom ?? Infinity));
    }

    clear(): void {
        this.fine.clear();
        this.coarse.clear();
        this.newest = null;
        this.stepsEnd = -Infinity;
    }
}
