// Follows one link: the stream of ticks, states and findings; after a failure again and again, until asked to stop.
// An agent without a stream is asked for its state instead.

import type { JournalEvent, Link, Maybe, State, Step, Tick, TickHalf } from './api.ts';
import { getJson, HttpError, readStream } from './net.ts';

export type Condition =
    | { kind: 'connecting' }
    | { kind: 'live' }
    | { kind: 'polling' }
    | { kind: 'token'; reason: string }
    | { kind: 'lost'; reason: string };

export interface Listener {
    onReport(report: State): void;
    onState(link: Link): void;
    onHistory(steps: Step[]): void;
    onTick(tick: Tick): void;
    onFinding(finding: JournalEvent): void;
    onFindings(findings: JournalEvent[]): void;
    onCondition(condition: Condition): void;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;
const SETTLED_MS = 10_000;
const POLL_MS = 500;
const EVENTS_ASKED_FOR = 500;

export class Feed {
    private readonly stopping = new AbortController();

    // `wanted`: the link's name, or null for the first one.
    constructor(
        private readonly wanted: string | null,
        private readonly listener: Listener,
    ) {
        void this.follow();
    }

    stop(): void {
        this.stopping.abort();
    }

    private get stopped(): boolean {
        return this.stopping.signal.aborted;
    }

    private async follow(): Promise<void> {
        let pause = FIRST_PAUSE_MS;
        this.listener.onCondition({ kind: 'connecting' });
        while (!this.stopped) {
            const began = Date.now();
            try {
                await this.once(() => (pause = FIRST_PAUSE_MS));
                // The agent bounds the age of a connection: the next one follows at once.
                if (Date.now() - began > SETTLED_MS) continue;
                this.lost('the agent ended the connection');
            } catch (error) {
                if (this.stopped) return;
                if (error instanceof HttpError && error.status === 401) {
                    this.listener.onCondition({ kind: 'token', reason: error.message });
                    return;
                }
                this.lost(error instanceof Error ? error.message : String(error));
            }
            await sleep(pause * (0.8 + 0.4 * Math.random()));
            pause = Math.min(pause * 1.6, LONGEST_PAUSE_MS);
        }
    }

    private lost(reason: string): void {
        if (!this.stopped) this.listener.onCondition({ kind: 'lost', reason });
    }

    private async once(onSuccess: () => void): Promise<void> {
        const report = await getJson<State>('/api/v1/state');
        if (this.stopped) return;
        this.listener.onReport(report);
        const link = report.links.find((link) => link.name === this.wanted) ?? report.links[0];
        if (!link) throw new Error('the agent watches no link');
        this.listener.onState(link);
        const query = `link=${encodeURIComponent(link.name)}`;
        const known = await this.fetchFindings(query);
        this.listener.onHistory(await history(link.name));
        try {
            for await (const event of readStream(`/api/v1/stream?${query}`, known, this.stopping.signal)) {
                onSuccess();
                this.handle(event.name, event.data);
            }
        } catch (error) {
            if (!(error instanceof HttpError && error.status === 404)) throw error;
            await this.poll(link.name, onSuccess);
        }
    }

    private handle(name: string, data: string): void {
        const value: unknown = JSON.parse(data);
        if (name === 'tick') {
            this.listener.onCondition({ kind: 'live' });
            this.listener.onTick(value as Tick);
        } else if (name === 'state') {
            this.listener.onState(value as Link);
        } else if (name === 'finding') {
            this.listener.onFinding(value as JournalEvent);
        }
    }

    // What happened until now, and the id after which the stream goes on. An agent without an event list is followed all
    // the same.
    private async fetchFindings(query: string): Promise<string | null> {
        try {
            const { events, last_event_id } = await getJson<{ events: JournalEvent[]; last_event_id?: string }>(
                `/api/v1/events?${query}&limit=${EVENTS_ASKED_FOR}`,
            );
            this.listener.onFindings(events);
            return last_event_id ?? null;
        } catch (error) {
            if (!(error instanceof HttpError && error.status === 404)) throw error;
            return null;
        }
    }

    private async poll(name: string, onSuccess: () => void): Promise<void> {
        while (!this.stopped) {
            const report = await getJson<State>('/api/v1/state');
            const link = report.links.find((link) => link.name === name);
            if (this.stopped || !link) return;
            onSuccess();
            this.listener.onCondition({ kind: 'polling' });
            this.listener.onState(link);
            this.listener.onTick(tickOf(link, report.uptime_s));
            await sleep(POLL_MS);
        }
    }
}

// What was before this page was opened. An agent that remembers nothing is followed all the same.
export async function history(link: string): Promise<Step[]> {
    try {
        const { steps } = await getJson<{ steps: Step[] }>(`/api/v1/history?link=${encodeURIComponent(link)}`);
        return steps;
    } catch (error) {
        if (!(error instanceof HttpError) || error.status === 401) throw error;
        return [];
    }
}

function tickOf(link: Link, at_s: number): Tick {
    const one = (level: Maybe<number>) => (level === null || level === undefined ? null : [level]);
    const half = (name: 'up' | 'down'): TickHalf => {
        const direction = link.directions[name];
        return {
            queue_bytes: one(direction.queue?.bytes),
            queue_uncertainty_bytes: one(direction.queue?.uncertainty_bytes),
            queue_ack_bytes: one(direction.queue?.ack_bytes),
            throughput_bps: direction.throughput_bps,
            rtt_s: direction.rtt?.mean_s ?? null,
            source: direction.queue?.source ?? null,
            auto: null,
        };
    };
    return {
        link: link.name,
        at_s,
        step_s: POLL_MS / 1000,
        up: half('up'),
        down: half('down'),
        phase: link.phase ?? null,
        verdict: link.verdict ?? null,
        skipped: 0,
    };
}

function sleep(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
}
