// Source of each buffer's level, and the traffic in it. Usually the buffer is in the modem or at the provider.

import { DIRECTIONS, type DirectionName, type Link, type Maybe, type Queue } from '../api.ts';
import { byId, Keyed, make } from '../dom.ts';
import * as format from '../format.ts';

export const NAMES: Record<DirectionName, string> = { up: 'uplink', down: 'downlink' };
const PLACES: Record<DirectionName, string> = { up: 'in the modem', down: 'at the provider' };
const KINDS: Record<string, string> = { tcp_data: 'TCP data', ack: 'TCP ACKs', udp: 'UDP', other: 'neither TCP nor UDP' };
// UDP's number (RFC 768).
const UDP = 17;
const TRUST: Record<string, string> = {
    never_empty: '. It was never seen empty, so the true level is higher by the part that never drained',
    stale: '. It was last seen empty long ago: a longer route would look the same',
};
// Less than this is not named.
const LEAST_SHARE = 0.005;

export class BuffersView {
    private readonly body = new Keyed(byId('buffers'));

    show(link: Link): void {
        const rows = DIRECTIONS.map((name) => {
            const queue = link.directions[name].queue;
            const delay = link.standing_delay_s?.[name];
            const parts = [
                `${format.level(queue?.bytes, queue?.uncertainty_bytes, queue?.source)}, ${howKnown(name, queue, link.vantage)}.`,
                ...(delay == null ? [] : [`Standing delay: ${format.seconds(delay)}.`]),
                fillOf(queue),
            ];
            return { name, text: parts.join(' ') };
        });
        this.body.update(JSON.stringify(rows), () =>
            rows.map(({ name, text }) =>
                make('div', { 'data-direction': name }, make('dt', { class: name }, `${capital(NAMES[name])} buffer`), make('dd', {}, text)),
            ),
        );
    }
}

// For the legend: where the buffer stands.
export function placeOf(name: DirectionName, source: Maybe<string>, vantage: Maybe<string>): string {
    if (source === 'estimate') return PLACES[name];
    if (source) return 'here';
    return name === 'up' && vantage === 'before_uplink_buffer' ? PLACES.up : 'not seen';
}

function howKnown(name: DirectionName, queue: Maybe<Queue>, vantage: Maybe<string>): string {
    const source = queue?.source;
    if (!queue || !source) {
        return name === 'up' && vantage === 'before_uplink_buffer'
            ? 'since the buffer is in the modem and no delay has been measured yet'
            : 'since nothing has been measured yet';
    }
    if (source !== 'estimate') return 'read from the gateway’s queue';
    const band = queue.uncertainty_bytes == null ? '; its uncertainty is unknown' : '';
    return `estimated from delays: the buffer is ${PLACES[name]}${band}${TRUST[queue.trust ?? ''] ?? ''}`;
}

// The shares of what entered lately, largest first, with the port that carries most of what is no TCP.
function fillOf(queue: Maybe<Queue>): string {
    const composition = queue?.composition;
    if (!composition) return 'The traffic in it is unknown.';
    const top = queue.top_port;
    const kindOfTop = top && (top.protocol === UDP || top.name.startsWith('UDP') ? 'udp' : 'other');
    const parts = Object.entries(composition)
        .filter(([, share]) => share >= LEAST_SHARE)
        .sort(([, one], [, other]) => other - one)
        .map(([kind, share]) => {
            const whole = format.percent(share);
            if (!top || kind !== kindOfTop) return `${whole} ${KINDS[kind] ?? kind}`;
            const part = format.percent(top.share);
            return part === whole ? `${whole} ${top.name}` : `${whole} ${KINDS[kind]} (${top.name}: at least ${part})`;
        });
    return parts.length === 0 ? 'The traffic in it is unknown.' : `Traffic: ${parts.join(', ')}.`;
}

// The largest share of the traffic in a buffer, as a sentence.
export function causeOf(cause: Maybe<{ kind: string; share: number }>): string {
    if (!cause) return 'The traffic in the buffer is unknown.';
    return `${format.percent(cause.share)} of the traffic in the buffer is ${KINDS[cause.kind] ?? cause.kind}.`;
}

function capital(word: string): string {
    return word.charAt(0).toUpperCase() + word.slice(1);
}
