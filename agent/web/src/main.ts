// The live page: one link at a time, followed through the stream, drawn as it comes.

import '../style/page.css';

import { DIRECTIONS, type DirectionName, type JournalEvent, type Link, type State, type Step, type Tick } from './api.ts';
import { Clock } from './charts/clock.ts';
import { DelayChart } from './charts/delay.ts';
import { DecisionStrip } from './charts/decisions.ts';
import { LineChart } from './charts/lines.ts';
import { PhaseStrip } from './charts/phases.ts';
import { QueueChart, type Unit } from './charts/queues.ts';
import { byId, make, setAttribute, setText } from './dom.ts';
import { type Condition, Feed, history, type Listener } from './feed.ts';
import * as format from './format.ts';
import { History, LONGEST_WINDOW_S } from './history.ts';
import { recall, remember, setToken } from './settings.ts';
import { onTheme, startTheme } from './theme.ts';
import { AdviceView } from './view/advice.ts';
import { BuffersView, placeOf } from './view/buffers.ts';
import { EventsView } from './view/events.ts';
import { FiguresView } from './view/figures.ts';
import { FlowsView } from './view/flows.ts';
import { FoundView } from './view/found.ts';
import { IncidentsView } from './view/incidents.ts';
import { Pendulum } from './view/pendulum.ts';
import { SourcesView } from './view/sources.ts';
import { VerdictView } from './view/verdict.ts';
import { waitingHost, WhereView } from './view/where.ts';

// 30 frames a second are smooth; who wants less motion gets two.
const FRAME_MS = matchMedia('(prefers-reduced-motion: reduce)').matches ? 500 : 33;
// Descriptions of the charts for screen readers are rewritten this often.
const DESCRIBE_MS = 5_000;
// Nobody looks at a still picture for longer; its data would pile up.
const LONGEST_PAUSE_S = 120;
const HISTORY_MS = 10_000;
// A buffer of unknown size counts as full here.
const USUAL_BUFFER = 30_000;
// Figures of this moment: without a connection there are none.
const LIVE = [
    ...['level-up', 'level-up-ack', 'level-down', 'level-down-ack', 'rate-up', 'rate-down', 'rtt-up', 'rtt-down'],
    ...DIRECTIONS.flatMap((name) => ['rate', 'wait', 'decision'].map((part) => `found-${name}-${part}`)),
];
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
    private readonly delays = new DelayChart(byId('where-chart'));
    private readonly where = new WhereView();
    // For each direction the rate that is found over what passes, the wait behind the shaper, and the decisions.
    private readonly found = DIRECTIONS.map((name, index) => ({
        rate: this.lines(
            `found-${name}-rate-chart`,
            [
                { column: 1 + index, colour: name, filled: true, lineless: true },
                { column: 5 + 2 * index, colour: name },
            ],
            format.rate,
            1_000,
        ),
        wait: this.lines(`found-${name}-wait-chart`, [{ column: 6 + 2 * index, colour: name }], format.seconds, 0.02),
        decisions: new DecisionStrip(byId(`found-${name}-decisions`), this.history, name),
    }));
    private readonly foundView = new FoundView();
    private readonly verdict = new VerdictView();
    private readonly buffers = new BuffersView();
    private readonly figures = new FiguresView();
    private readonly flows = new FlowsView();
    private readonly advice = new AdviceView();
    private readonly events = new EventsView();
    private readonly incidents = new IncidentsView();
    private readonly sources = new SourcesView();
    private readonly pendulum = new Pendulum();
    private readonly links = byId<HTMLSelectElement>('link');
    private readonly windowSelect = byId<HTMLSelectElement>('window');
    private readonly scale = byId<HTMLSelectElement>('scale');
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
        this.windowSelect.addEventListener('change', () => this.setWindow());
        this.history.long = Number(this.windowSelect.value) > LONGEST_WINDOW_S;
        setInterval(() => void this.refreshHistory(), HISTORY_MS);
        this.scale.value = recall('scale') ?? 'bytes';
        if (!this.scale.value) this.scale.value = 'bytes';
        this.scale.addEventListener('change', () => {
            remember('scale', this.scale.value);
            this.queues.setUnit(this.scale.value as Unit);
        });
        this.queues.setUnit(this.scale.value as Unit);
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

    onReport(report: State): void {
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
        const option = this.scale.options[1];
        if (option) {
            option.disabled = !this.queues.canShowPercent;
            setText(option, option.disabled ? '% of each limit (a limit is unknown)' : '% of each limit');
        }
        setText(byId('rate-up'), format.rate(up.throughput_1s_bps));
        setText(byId('rate-down'), format.rate(down.throughput_1s_bps));
        this.rateUp.setMark(link.link.uplink_rate_bps);
        this.rateDown.setMark(link.link.downlink_rate_bps);
        this.verdict.show(link, this.flows.hostName(waitingHost(link)));
        this.where.show(link);
        if (link.delay && this.history.newest !== null) this.delays.add(this.history.newest, link.delay);
        this.buffers.show(link);
        this.figures.show(link);
        this.foundView.show(link);
        byId('band-note').hidden = !(up.queue?.uncertainty_bytes || down.queue?.uncertainty_bytes);
        this.advice.show(link);
        this.sources.show(link, this.history.skipped);
        this.flows.setLink(link.name);
        this.incidents.setLink(link.name);
    }

    onHistory(steps: Step[]): void {
        this.history.remember(steps);
    }

    // Long windows are drawn from what the agent remembers, which grows every ten seconds. A failure is what the connection's state says.
    private async refreshHistory(): Promise<void> {
        const name = this.link?.name;
        if (!name || !this.history.long || document.hidden || this.pausedAt !== null) return;
        const steps = await history(name).catch(() => null);
        if (steps && this.link?.name === name) this.history.remember(steps);
    }

    private setWindow(): void {
        remember('window', this.windowSelect.value);
        this.history.long = Number(this.windowSelect.value) > LONGEST_WINDOW_S;
        void this.refreshHistory();
    }

    onTick(tick: Tick): void {
        this.history.add(tick);
        this.clock.note(tick.at_s);
        const { up, down } = tick;
        const sources = {
            up: up.source ?? this.link?.directions.up.queue?.source,
            down: down.source ?? this.link?.directions.down.queue?.source,
        };
        const last = (values: typeof up.queue_ack_bytes) => format.level(values?.at(-1));
        const level = (name: DirectionName) =>
            format.level(
                tick[name].queue_bytes?.at(-1),
                tick[name].queue_uncertainty_bytes?.at(-1),
                sources[name],
            );
        setText(byId('level-up'), level('up'));
        setText(byId('level-up-ack'), last(up.queue_ack_bytes));
        setText(byId('level-down'), level('down'));
        setText(byId('level-down-ack'), last(down.queue_ack_bytes));
        setText(byId('up-source'), `Uplink buffer, ${placeOf('up', sources.up, this.link?.vantage)}`);
        setText(byId('down-source'), `Downlink buffer, ${placeOf('down', sources.down, this.link?.vantage)}`);
        setText(byId('rtt-up'), format.seconds(up.rtt_s));
        setText(byId('rtt-down'), format.seconds(down.rtt_s));
        this.foundView.tick(tick);
        this.pendulum.show(tick, {
            up: this.link?.directions.up.queue?.limit_bytes ?? USUAL_BUFFER,
            down: this.link?.directions.down.queue?.limit_bytes ?? USUAL_BUFFER,
        });
    }

    onFinding(finding: JournalEvent): void {
        this.events.add(finding);
    }

    onFindings(findings: JournalEvent[]): void {
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
            this.verdict.lost();
            for (const id of LIVE) setText(byId(id), format.UNKNOWN);
            document.title = `No connection${this.link ? ` · ${this.link.name}` : ''} · Pendulum`;
            const since = new Date(this.lostAt ?? 0).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
            setText(notice, `No connection to the agent since ${since} (${condition.reason}). The figures are old; this page keeps trying.`);
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
        return [this.queues, this.rateUp, this.rateDown, this.rtt, this.delays];
    }

    private rebuild(): void {
        for (const chart of this.charts) chart.build();
        for (const { rate, wait } of this.found) [rate, wait].forEach((chart) => chart.build());
        this.lastFrame = 0;
    }

    private follow(): void {
        const wanted = decodeURIComponent(location.hash.slice(1)) || null;
        this.feed?.stop();
        this.history.clear();
        this.delays.clear();
        this.setPaused(false);
        this.feed = new Feed(wanted, this);
    }

    private setPaused(paused: boolean): void {
        this.pausedAt = paused ? this.clock.edge() : null;
        this.history.heldFrom = this.pausedAt === null ? null : this.pausedAt - LONGEST_WINDOW_S;
        setAttribute(this.pause, 'aria-pressed', String(this.pausedAt !== null));
        setText(this.pause, this.pausedAt === null ? 'Pause' : 'Continue');
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
        byId('means-key').hidden = this.history.meansUntil <= from;
        this.strip.draw(from, edge, this.queues.plot());
        for (const { rate, wait, decisions } of this.foundView.isShown ? this.found : []) {
            rate.draw(from, edge);
            wait.draw(from, edge);
            decisions.draw(from, edge, rate.plot());
        }
        if (now - this.lastDescription > DESCRIBE_MS) {
            this.lastDescription = now;
            this.describe();
        }
    }

    private describe(): void {
        const text = (id: string) => byId(id).textContent ?? '';
        const scale = this.queues.scale();
        setAttribute(
            byId('queue-chart'),
            'aria-label',
            `Bytes in both buffers over ${this.windowSelect.value} s, full height uplink ${scale.up}, downlink ${scale.down}. Now: uplink ${text('level-up')}, downlink ${text('level-down')}.`,
        );
        setAttribute(byId('rate-up-chart'), 'aria-label', `Uplink throughput, now ${text('rate-up')}`);
        setAttribute(byId('rate-down-chart'), 'aria-label', `Downlink throughput, now ${text('rate-down')}`);
        setAttribute(byId('rtt-chart'), 'aria-label', `Round-trip times, now ${text('rtt-up')} to the internet, ${text('rtt-down')} to the home`);
        this.foundView.describe();
        const phase = this.link?.phase;
        setAttribute(byId('phase-chart'), 'aria-label', `Phases over time, now ${phase ? phase.replaceAll('_', ' ') : 'unknown'}`);
    }
}

new Page().start();
