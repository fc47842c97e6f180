// Figures of both directions, and the share of time in each phase.

import { DIRECTIONS, type Direction, type DirectionName, type Link, type Maybe, PHASES, type PhaseName } from '../api.ts';
import { byId, Keyed, make, setText } from '../dom.ts';
import * as format from '../format.ts';

type Cell = [string, string];

const ENDS: Record<DirectionName, string> = { up: 'to the internet', down: 'to the home' };

// Rates are over the same second.
const ROWS: [string, (direction: Direction, name: DirectionName, link: Link) => Cell][] = [
    ['Throughput', (d, name, link) => [format.rate(d.throughput_1s_bps), used(d.throughput_1s_bps, name, link)]],
    ['TCP goodput', (d) => [format.rate(d.throughput_1s_bps == null ? null : d.goodput_bps), '']],
    ['In the buffer', (d) => [levelOf(d), of(format.bytes(d.queue?.limit_bytes), d.queue?.limit_bytes)]],
    ['Standing queue', (d) => [format.level(d.queue?.standing_bytes, null, d.queue?.source), '']],
    ['Dropped', (d) => [format.count(total(d.queue?.drops)), '']],
    ['Outstanding', (d) => [format.bytes(d.in_flight_bytes), '']],
    ['Local windows', (d) => [format.bytes(d.cwnd_bytes), d.cwnd_source ?? '']],
    ['Round trip', (d, name) => [format.seconds(d.rtt?.p50_s), d.rtt ? `${ENDS[name]}; 95 %: ${format.seconds(d.rtt.p95_s)}` : ENDS[name]]],
    ['ACK burst', (d) => [format.plain(d.ack_burst?.mean), d.ack_burst ? `95 %: ${d.ack_burst.p95}` : '']],
    ['Retransmitted', (d) => [format.count(d.retransmitted_segments), 'segments']],
    ['Flows with data', (d) => [format.count(d.flows), '']],
];

function levelOf({ queue }: Direction): string {
    return format.level(queue?.bytes, queue?.uncertainty_bytes, queue?.source);
}

function of(text: string, value: Maybe<number>): string {
    return value == null ? '' : `of ${text}`;
}

// Part of the link that is used. A buffer in a modem takes more than the link carries.
function used(throughput: Maybe<number>, name: DirectionName, link: Link): string {
    const rate = name === 'up' ? link.link.uplink_rate_bps : link.link.downlink_rate_bps;
    if (!rate || throughput == null) return '';
    if (throughput <= rate) return `${format.percent(throughput / rate)} of ${format.rate(rate)}`;
    const isModem = name === 'up' && link.vantage === 'before_uplink_buffer';
    return isModem ? `into the modem; link rate ${format.rate(rate)}` : `more than the known rate of ${format.rate(rate)}`;
}

// Of a buffer elsewhere no drops are counted: that is not none.
function total(drops: Maybe<Record<string, number>>): number | null {
    const counts = Object.values(drops ?? {});
    return counts.length > 0 ? counts.reduce((sum, count) => sum + count, 0) : null;
}

export const PHASE_TITLES: Record<PhaseName, string> = {
    uplink_bound: 'Uplink-bound',
    downlink_bound: 'Downlink-bound',
    balanced: 'Balanced',
    idle: 'Idle',
};

export class FiguresView {
    private readonly body = byId('figures');
    private readonly cells: HTMLElement[][] = [];
    private readonly bar = byId('share-bar');
    private readonly list = new Keyed(byId('share-list'));
    private readonly parts: HTMLElement[];

    constructor() {
        for (const [name] of ROWS) {
            const cells = DIRECTIONS.map(() => make('td', {}, make('span'), make('small')));
            this.cells.push(cells);
            this.body.append(make('tr', {}, make('th', { scope: 'row' }, name), ...cells));
        }
        this.parts = PHASES.map((phase) => make('span', { class: `phase-${phase}` }));
        this.bar.append(...this.parts);
    }

    show(link: Link): void {
        ROWS.forEach(([, read], row) => {
            DIRECTIONS.forEach((name, column) => {
                const [value, note] = read(link.directions[name], name, link);
                const [first, second] = this.cells[row]?.[column]?.children ?? [];
                if (first) setText(first, value);
                if (second) setText(second, note);
            });
        });
        this.showShares(link);
    }

    private showShares(link: Link): void {
        const share = link.phase_share;
        const period = link.horizon_s == null ? '' : ` over the last ${format.span(link.horizon_s)}`;
        setText(byId('shares-title'), `Share of time in each phase${period}`);
        PHASES.forEach((phase, index) => {
            const part = this.parts[index];
            if (part) part.style.flexGrow = String(share?.[phase] ?? 0);
        });
        const texts = PHASES.map((phase) => `${PHASE_TITLES[phase]} ${format.percent(share?.[phase])}`);
        this.list.update(JSON.stringify([texts, link.phase]), () =>
            PHASES.map((phase, index) =>
                make(
                    'li',
                    {},
                    make('i', { class: `phase-${phase}`, 'aria-hidden': 'true' }),
                    make('span', link.phase === phase ? { class: 'now', 'aria-current': 'true' } : {}, texts[index] ?? ''),
                ),
            ),
        );
    }
}
