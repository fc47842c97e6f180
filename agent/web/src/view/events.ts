// Verdicts and findings as they came, newest first. Phase changes are left to the strip: there are too many to read.

import type { JournalEvent } from '../api.ts';
import { byId, make } from '../dom.ts';
import { titleOf } from './verdict.ts';

const SHOWN = 30;

export class EventsView {
    private readonly list = byId('events');
    private newest = -1;

    constructor() {
        this.clear();
    }

    // What happened before; replaces what is shown, since an agent that was started anew counts anew.
    reset(findings: JournalEvent[]): void {
        this.clear();
        for (const finding of findings) this.add(finding);
    }

    add(finding: JournalEvent): void {
        if (finding.seq <= this.newest) return;
        this.newest = finding.seq;
        if (finding.event === 'phase') return;
        if (this.list.dataset['empty']) this.list.replaceChildren();
        delete this.list.dataset['empty'];
        this.list.prepend(item(finding));
        while (this.list.children.length > SHOWN) this.list.lastElementChild?.remove();
    }

    private clear(): void {
        this.newest = -1;
        this.list.dataset['empty'] = 'yes';
        this.list.replaceChildren(make('li', {}, make('p', { class: 'quiet' }, 'Nothing yet.')));
    }
}

function item(finding: JournalEvent): HTMLElement {
    const at = new Date(finding.time);
    const time = make('time', { datetime: finding.time, title: finding.time }, at.toLocaleTimeString('en-GB'));
    const reason = finding.evidence?.reason ?? '';
    return make('li', {}, time, make('b', {}, titleOfEvent(finding)), make('p', { class: 'quiet' }, reason));
}

function titleOfEvent(finding: JournalEvent): string {
    const where = finding.direction ? `, ${finding.direction}` : '';
    switch (finding.event) {
        case 'verdict':
            return finding.to ? titleOf(finding.to) : 'No verdict';
        case 'finding':
            return `${words(finding.finding)}${where}`;
        case 'finding_ended':
            return `No longer: ${words(finding.finding)}${where}`;
        default:
            return words(finding.event);
    }
}

function words(name: string | undefined): string {
    const text = (name ?? '').replaceAll('_', ' ').replace(/\brtt\b/, 'RTT');
    return text.charAt(0).toUpperCase() + text.slice(1);
}
