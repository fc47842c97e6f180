// Where the delay comes from, in words: one line for each segment, and the sentence that the answer begins with.

import type { Delay, Link, Maybe } from '../api.ts';
import { delayOf, type SegmentName, SEGMENTS } from '../charts/delay.ts';
import { byId, Keyed, make } from '../dom.ts';
import * as format from '../format.ts';

const TITLES: Record<SegmentName, string> = {
    home: 'Home: LAN, Wi-Fi, hosts',
    gateway: 'Gateway: its own queues',
    uplink: 'Uplink: modem',
    downlink: 'Downlink: provider',
    beyond: 'Beyond: route and far hosts',
};
const PLACES: Record<SegmentName, string> = {
    home: 'in your home',
    gateway: 'in the gateway',
    uplink: 'in the uplink',
    downlink: 'in the downlink',
    beyond: 'beyond your line',
};
// The names of model/src/delay.rs.
const UNKNOWN: Record<string, string> = {
    no_replies: 'no replies',
    no_base: 'never seen without load',
    one_end: 'one far host only',
    undivided: 'direction unknown',
    too_few: 'too few packets',
    not_read: 'not read',
};

function isSegment(name: string): name is SegmentName {
    return (SEGMENTS as readonly string[]).includes(name);
}

// Seconds that nobody notices, as in model/src/delay.rs.
const FREE_S = 0.03;

// Whether it is known that next to nothing waits in a segment.
function isFree(delay: Delay, name: SegmentName): boolean {
    const known = delay.segments[name];
    return known?.queue_s != null && known.queue_s + (known.uncertainty_s ?? 0) < FREE_S;
}

// The host that waits, where packets wait the longest.
export function waitingHost(link: Link): Maybe<string> {
    return link.delay?.segments[link.delay.place]?.host ?? null;
}

// "The line is fine. 310 ms wait in your home, at 192.168.1.7." Nothing where nothing waits, or it is unknown where.
export function placeSentence(link: Link, isCalm: boolean, host: Maybe<string>): string {
    const delay = link.delay;
    if (!link.attached || !delay || !isSegment(delay.place)) return '';
    const queue = delay.segments[delay.place]?.queue_s;
    if (queue == null) return '';
    const isOutside = delay.place === 'home' || delay.place === 'beyond';
    const isFine = isCalm && isOutside && isFree(delay, 'uplink') && isFree(delay, 'downlink');
    const at = host ? `, at ${host}` : '';
    return `${isFine ? 'The line is fine. ' : ''}${format.seconds(queue)} wait ${PLACES[delay.place]}${at}.`;
}

export class WhereView {
    private readonly card = byId('where');
    private readonly list = new Keyed(byId('where-list'));

    show(link: Link): void {
        const delay = link.delay;
        this.card.hidden = !delay;
        if (!delay) return;
        const rows = SEGMENTS.map((name): [SegmentName, string] => {
            const segment = delay.segments[name];
            const total = delayOf(delay, name);
            if (total === null) return [name, `unknown: ${UNKNOWN[segment?.unknown ?? ''] ?? segment?.unknown ?? 'not told'}`];
            return [name, `${format.seconds(total)}, of that ${format.seconds(segment?.queue_s)} ± ${format.seconds(segment?.uncertainty_s)} in queues`];
        });
        this.list.update(JSON.stringify([rows, delay.place]), () =>
            rows.map(([name, text]) =>
                make('li', delay.place === name ? { class: 'now' } : {}, make('i', { class: `segment-${name}`, 'aria-hidden': 'true' }), make('span', {}, TITLES[name]), make('b', {}, text)),
            ),
        );
    }
}
