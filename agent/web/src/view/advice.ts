// What to do about it: buffer sizes, what they would bring, and the commands.

import type { Advice, Link } from '../api.ts';
import { byId, Keyed, make } from '../dom.ts';
import * as format from '../format.ts';

export class AdviceView {
    private readonly body = new Keyed(byId('advice'));

    show(link: Link): void {
        const advice = link.advice ?? null;
        this.body.update(JSON.stringify([advice, missingOf(link)]), () =>
            advice ? render(advice) : [make('p', { class: 'quiet' }, missingOf(link))],
        );
    }
}

function missingOf(link: Link): string {
    const { uplink_rate_bps: up, downlink_rate_bps: down } = link.link;
    return up == null || down == null
        ? 'No advice without the rates of the link: give uplink-rate and downlink-rate in the configuration, or let traffic fill the link until they are learnt.'
        : 'No advice yet: it needs the rates of the link and its round trip without a queue.';
}

function render(advice: Advice): HTMLElement[] {
    const packets = advice.uplink_buffer_packets;
    const facts: [string, string, string][] = [
        ['Uplink buffer', format.bytes(advice.uplink_buffer_bytes), packets == null ? '' : `or ${packets} packets`],
        ['Downlink buffer', format.bytes(advice.downlink_buffer_bytes), ''],
        ['Download : upload', format.ratio(advice.expected_ratio), 'then expected'],
        ['Longest wait', format.seconds(advice.max_queue_delay_s), 'in the uplink buffer'],
    ];
    const parts: HTMLElement[] = [
        make(
            'dl',
            {},
            ...facts.map(([name, value, note]) =>
                make('div', {}, make('dt', {}, name), make('dd', {}, value, make('small', {}, note))),
            ),
        ),
    ];
    if (typeof advice.confidence === 'string') {
        parts.push(make('p', { class: 'quiet' }, `Confidence of the model: ${advice.confidence}.`));
    }
    if (advice.commands.length > 0) {
        const text = advice.commands.join('\n');
        parts.push(make('pre', { tabindex: '0', 'aria-label': 'Commands' }, text), copyButton(text));
    }
    return parts;
}

// Browsers offer the clipboard only to pages of this machine or over TLS.
function copyButton(text: string): HTMLElement {
    const button = make('button', { type: 'button' }, 'Copy the commands');
    button.hidden = !navigator.clipboard;
    button.addEventListener('click', () => {
        navigator.clipboard.writeText(text).then(
            () => button.replaceChildren('Copied'),
            () => button.replaceChildren('The browser refused: mark the text and copy it'),
        );
    });
    return button;
}
