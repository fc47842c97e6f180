// The rates that the shaper finds by itself: shown where it looks for one, and nowhere else.

import { type DecisionName, DIRECTIONS, type DirectionName, type Link, type Maybe, type Tick } from '../api.ts';
import { byId, make, setAttribute, setText } from '../dom.ts';
import * as format from '../format.ts';

export const DECISION_TITLES: Record<DecisionName, string> = {
    raise: 'raised',
    lower: 'lowered',
    drain: 'lowered far, to drain',
    outage: 'lowered far, no replies',
    hold: 'held',
};
const STATES: Record<string, string> = {
    observing: 'This is a turn of the comparison in which the link is not shaped.',
    declined: 'The link is not shaped: the comparison has found no gain.',
    dry_run: 'The link is not shaped: this is a dry run.',
};

export class FoundView {
    private readonly card = byId('found');

    constructor() {
        byId('found-legend').append(
            ...Object.entries(DECISION_TITLES).map(([decision, title]) =>
                make('li', {}, make('i', { class: `decision-${decision}`, 'aria-hidden': 'true' }), title),
            ),
        );
    }

    get isShown(): boolean {
        return !this.card.hidden;
    }

    // A direction is there if its rate is looked for.
    show(link: Link): void {
        const lines = { up: link.shape?.uplink, down: link.shape?.downlink };
        this.card.hidden = !DIRECTIONS.some((name) => lines[name]?.auto);
        for (const name of DIRECTIONS) {
            const line = lines[name];
            const auto = line?.auto;
            byId(`found-${name}`).hidden = !auto;
            if (!auto) continue;
            const carries = auto.link_rate_bps == null ? 'The link’s rate is unknown' : `The link carries ${format.rate(auto.link_rate_bps)} as measured`;
            setText(byId(`found-${name}-why`), `${STATES[link.shape?.state ?? ''] ?? format.sentence(auto.reason)} ${carries}${bounds(auto.minimum_bps, auto.maximum_bps)}.`);
        }
    }

    tick(tick: Tick): void {
        for (const name of DIRECTIONS) {
            const found = tick[name].auto;
            setText(byId(`found-${name}-rate`), found ? format.rate(found.rate_bps) : 'not shaped');
            const wait = found?.waits_behind_s;
            setText(byId(`found-${name}-wait`), wait == null ? format.NOT_KNOWN : format.seconds(wait));
            setText(byId(`found-${name}-decision`), found ? (DECISION_TITLES[found.decision] ?? found.decision) : format.NOT_KNOWN);
        }
    }

    // For screen readers.
    describe(): void {
        const text = (name: DirectionName, part: string) => byId(`found-${name}-${part}`).textContent ?? '';
        for (const name of DIRECTIONS) {
            setAttribute(byId(`found-${name}-rate-chart`), 'aria-label', `Rate of the shaper and throughput over time, now ${text(name, 'rate')}`);
            setAttribute(byId(`found-${name}-wait-chart`), 'aria-label', `Wait behind the shaper over time, now ${text(name, 'wait')}`);
            setAttribute(byId(`found-${name}-decisions`), 'aria-label', `Decisions over time, now ${text(name, 'decision')}`);
        }
    }
}

function bounds(least: Maybe<number>, most: Maybe<number>): string {
    const parts = [...(least == null ? [] : [`at least ${format.rate(least)}`]), ...(most == null ? [] : [`at most ${format.rate(most)}`])];
    return parts.length === 0 ? '' : `; configured: ${parts.join(', ')}`;
}
