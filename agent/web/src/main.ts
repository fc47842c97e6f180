// The live page: one link at a time, followed through the stream, drawn as it comes.

import '../style/page.css';

import type { Finding, Link, Maybe, Report, Tick } from './api.ts';
import { Clock } from './charts/clock.ts';
import { LineChart } from './charts/lines.ts';
import { PhaseStrip } from './charts/phases.ts';
import { QueueChart } from './charts/queues.ts';
import { byId, make, setAttribute, setText } from './dom.ts';
import { type Condition, Feed, type Listener } from './feed.ts';
import * as format from './format.ts';
import { History, LONGEST_WINDOW_S } from './history.ts';
import { recall, remember, setToken } from './settings.ts';
import { onTheme, startTheme } from './theme.ts';
import { AdviceView } from './view/advice.ts';
import { EventsView } from './view/events.ts';
import { FiguresView } from './view/figures.ts';
import { FlowsView } from './view/flows.ts';
import { Pendulum } from './view/pendulum.ts';
import { SourcesView } from './view/sources.ts';
import { VerdictView } from './view/verdict.ts';

// 30 frames a second are smooth; who wants less motion gets two.
const FRAME_MS = matchMedia('(prefers-reduced-motion: reduce)').matches ? 500 : 33;
// Descriptions of the charts for screen readers are rewritten this often.
const DESCRIBE_MS = 5_000;
// Nobody looks at a still picture for longer; its data would pile up.
const LONGEST_PAUSE_S = 120;
// A buffer of unknown size counts as full here.
const USUAL_BUFFER = 30_000;
const SHOWN_CONDITION: Record<Condition['kind'], string> = {
    connecting: 'Connecting',
    live: 'Live',
    polling: 'Live, twice a second',
    token: 'Token needed',
    lost: 'Reconnecting',
};

class Page implements Listener {
    private readonly history = new History();
    private readonly clock = new Clock();
    private readonly queues = new QueueChart(byId('queue-chart'), this.history);
    private readonly strip = new PhaseStrip(byId('phase-chart'), this.history);
    private readonly rateUp = this.lines('rate-up-chart', [{ column: 1, colour: 'up' }], format.rate, 1_000);
    private readonly rateDown = this.lines('rate-down-chart', [{ column: 2, colour: 'down' }], format.rate, 1_000);
    private readonly rtt = this.lines(
        'rtt-chart',
        [
            { column: 3, colour: 'up' },
            { column: 4, colour: 'down', dashed: true },
        ],
        format.seconds,
        0.01,
    );
    private readonly verdict = new VerdictView();
    private readonly figures = new FiguresView();
    private readonly flows = new FlowsView();
    private readonly advice = new AdviceView();
    private readonly events = new EventsView();
    private readonly sources = new SourcesView();
    private readonly pendulum = new Pendulum();
    private readonly links = byId<HTMLSelectElement>('link');
    private readonly windowSelect = byId<HTMLSelectElement>('window');
    private readonly pause = byId<HTMLButtonElement>('pause');
    private feed: Feed | null = null;
    private link: Link | null = null;
    private pausedAt: number | null = null;
    private lastFrame = 0;
    private lastDescription = 0;
    private lostAt: number | null = null;

    start(): void {
        startTheme(byId('theme'));
        onTheme(() => this.rebuild());
        this.rebuild();
        this.windowSelect.value = recall('window') ?? this.windowSelect.value;
        if (!this.windowSelect.value) this.windowSelect.value = '30';
        this.windowSelect.addEventListener('change', () => remember('window', this.windowSelect.value));
        this.pause.addEventListener('click', () => this.setPaused(this.pausedAt === null));
        this.links.addEventListener('change', () => {
            location.hash = encodeURIComponent(this.links.value);
        });
        addEventListener('hashchange', () => this.follow());
        byId('token-form').addEventListener('submit', (event) => {
            event.preventDefault();
            setToken(byId<HTMLInputElement>('token').value.trim());
            this.follow();
        });
        this.follow();
        requestAnimationFrame((now) => this.frame(now));
    }

    onReport(report: Report): void {
        setText(byId('about'), `Pendulum ${report.version}, running for ${format.span(report.uptime_s)} when this page connected`);
        const names = report.links.map((link) => link.name);
        const shown = [...this.links.options].map((option) => option.value);
        if (JSON.stringify(names) !== JSON.stringify(shown)) {
            this.links.replaceChildren(...names.map((name) => make('option', { value: name }, name)));
        }
    }

    onState(link: Link): void {
        this.link = link;
        this.links.value = link.name;
        document.title = `${byId('verdict-name').textContent} · ${link.name} · Pendulum`;
        const { up, down } = link.directions;
        this.queues.setLimits({ up: up.queue?.limit_bytes, down: down.queue?.limit_bytes });
        this.rateUp.setMark(link.link.uplink_rate_bps);
        this.rateDown.setMark(link.link.downlink_rate_bps);
        this.verdict.show(link);
        this.figures.show(link);
        this.advice.show(link);
        this.sources.show(link, this.history.skipped);
        this.flows.setLink(link.name);
    }

    onTick(tick: Tick): void {
        this.history.add(tick);
        this.clock.note(tick.at_s);
        const { up, down } = tick;
        const last = (values: typeof up.queue_bytes) => format.bytes(values?.at(-1));
        setText(byId('level-up'), last(up.queue_bytes));
        setText(byId('level-up-ack'), last(up.queue_ack_bytes));
        setText(byId('level-down'), last(down.queue_bytes));
        setText(byId('level-down-ack'), last(down.queue_ack_bytes));
        const source = down.source ?? this.link?.directions.down.queue?.source;
        setText(byId('down-source'), `Downlink buffer, ${placeOf(source)}`);
        setText(byId('rate-up'), format.rate(up.throughput_bps));
        setText(byId('rate-down'), format.rate(down.throughput_bps));
        setText(byId('rtt-up'), format.seconds(up.rtt_s));
        setText(byId('rtt-down'), format.seconds(down.rtt_s));
        this.pendulum.show(tick, {
            up: this.link?.directions.up.queue?.limit_bytes ?? USUAL_BUFFER,
            down: this.link?.directions.down.queue?.limit_bytes ?? USUAL_BUFFER,
        });
    }

    onFinding(finding: Finding): void {
        this.events.add(finding);
    }

    onFindings(findings: Finding[]): void {
        this.events.reset(findings);
    }

    onCondition(condition: Condition): void {
        const { kind } = condition;
        setAttribute(byId('condition'), 'data-kind', kind);
        setText(byId('condition-text'), SHOWN_CONDITION[kind]);
        byId('token-form').hidden = kind !== 'token';
        byId('main').hidden = kind === 'token';
        if (kind === 'token') {
            setText(byId('token-reason'), condition.reason);
            byId('token').focus();
        }
        const lost = kind === 'lost';
        byId('main').classList.toggle('stale', lost);
        this.lostAt = lost ? (this.lostAt ?? Date.now()) : null;
        const notice = byId('notice');
        notice.hidden = !lost;
        if (lost) {
            const since = new Date(this.lostAt ?? 0).toLocaleTimeString('en-GB');
            setText(notice, `No connection to the agent since ${since} (${condition.reason}). What is shown is old; this page keeps trying.`);
        }
    }

    private lines(
        id: string,
        curves: ConstructorParameters<typeof LineChart>[2],
        write: (value: number) => string,
        least: number,
    ): LineChart {
        return new LineChart(byId(id), this.history, curves, write, least);
    }

    private get charts() {
        return [this.queues, this.rateUp, this.rateDown, this.rtt];
    }

    private rebuild(): void {
        for (const chart of this.charts) chart.build();
        this.lastFrame = 0;
    }

    private follow(): void {
        const wanted = decodeURIComponent(location.hash.slice(1)) || null;
        this.feed?.stop();
        this.history.clear();
        this.setPaused(false);
        this.feed = new Feed(wanted, this);
    }

    private setPaused(paused: boolean): void {
        this.pausedAt = paused ? this.clock.edge() : null;
        this.history.heldFrom = this.pausedAt === null ? null : this.pausedAt - LONGEST_WINDOW_S;
        setAttribute(this.pause, 'aria-pressed', String(this.pausedAt !== null));
        setText(this.pause, this.pausedAt === null ? 'Pause' : 'Go on');
    }

    private frame(now: number): void {
        requestAnimationFrame((next) => this.frame(next));
        if (now - this.lastFrame < FRAME_MS - 4) return;
        this.lastFrame = now;
        let edge = this.clock.edge();
        if (edge === null) return;
        if (this.pausedAt !== null && edge - this.pausedAt > LONGEST_PAUSE_S) this.setPaused(false);
        edge = this.pausedAt ?? edge;
        const from = edge - Number(this.windowSelect.value);
        for (const chart of this.charts) chart.draw(from, edge);
        const { left, width } = this.queues.plot();
        this.strip.draw(from, edge, left, width);
        if (now - this.lastDescription > DESCRIBE_MS) {
            this.lastDescription = now;
            this.describe();
        }
    }

    private describe(): void {
        const text = (id: string) => byId(id).textContent ?? '';
        setAttribute(
            byId('queue-chart'),
            'aria-label',
            `Bytes in both buffers over ${this.windowSelect.value} s. Now: uplink ${text('level-up')}, downlink ${text('level-down')}.`,
        );
        setAttribute(byId('rate-up-chart'), 'aria-label', `Uplink throughput, now ${text('rate-up')}`);
        setAttribute(byId('rate-down-chart'), 'aria-label', `Downlink throughput, now ${text('rate-down')}`);
        setAttribute(byId('rtt-chart'), 'aria-label', `Round-trip times, now ${text('rtt-up')} outside, ${text('rtt-down')} at home`);
        const phase = this.link?.phase;
        setAttribute(byId('phase-chart'), 'aria-label', `Phases over time, now ${phase ? phase.replaceAll('_', ' ') : 'unknown'}`);
    }
}

// The downlink buffer stands at the provider unless the gateway shapes what comes in.
function placeOf(source: Maybe<string>): string {
    if (!source) return 'not seen';
    return source === 'estimate' ? 'estimated' : 'here';
}

new Page().start();
