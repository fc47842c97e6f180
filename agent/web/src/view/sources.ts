// Where the figures come from, what is degraded, what was lost.

import type { Link } from '../api.ts';
import { byId, Keyed, make } from '../dom.ts';
import * as format from '../format.ts';

const WHAT: Record<string, string> = {
    queue: 'Queue',
    cwnd: 'Windows',
    rate: 'Link rate',
    rtt: 'Round trip',
};
const NAMES: Record<string, string> = { up: 'uplink', down: 'downlink' };

export class SourcesView {
    private readonly body = new Keyed(byId('sources'));

    // `skipped`: ticks this page was too slow for.
    show(link: Link, skipped: number): void {
        const rows = rowsOf(link);
        const degraded = [...(link.degraded ?? [])];
        const lost = Object.entries(link.losses ?? {}).filter(([, count]) => count > 0);
        const missed = skipped > 0 ? `This page was too slow for ${format.count(skipped)} updates of 100 ms.` : '';
        this.body.update(JSON.stringify([rows, degraded, lost, missed]), () => [
            degraded.length > 0
                ? make('ul', { class: 'degraded', 'aria-label': 'Degraded' }, ...degraded.map((text) => make('li', {}, text)))
                : make('p', { class: 'fine' }, 'Every source is the best there is.'),
            table(rows),
            ...(lost.length > 0 ? [losses(lost)] : []),
            ...(missed ? [make('p', { class: 'quiet' }, missed)] : []),
        ]);
    }
}

type Row = [string, string];

function rowsOf(link: Link): Row[] {
    const rows: Row[] = (link.sources ?? []).map((source) => {
        const where = source.direction ? `, ${NAMES[source.direction] ?? source.direction}` : '';
        return [`${WHAT[source.what] ?? source.what}${where}`, source.source];
    });
    if (link.hooks) rows.push(['Packets', `${link.hooks.ingress} in, ${link.hooks.egress} out, ${link.hooks.link_layer}`]);
    const trust = link.directions.down.queue?.trust;
    if (trust) rows.push(['Trust in the downlink estimate', trust.replaceAll('_', ' ')]);
    if (link.phase_source) rows.push(['Phases', link.phase_source]);
    return rows;
}

function table(rows: Row[]): HTMLElement {
    return make(
        'table',
        {},
        make('caption', { class: 'hidden' }, 'Sources in use'),
        make(
            'tbody',
            {},
            ...rows.map(([what, source]) => make('tr', {}, make('th', { scope: 'row' }, what), make('td', {}, source))),
        ),
    );
}

function losses(lost: [string, number][]): HTMLElement {
    const texts = lost.map(([reason, count]) => `${reason.replaceAll('_', ' ')} ${format.count(count)}`);
    return make('p', { class: 'quiet' }, `Not measured since the start: ${texts.join(', ')}.`);
}
