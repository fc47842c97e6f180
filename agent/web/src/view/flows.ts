// The busiest flows: sorted by any column, addresses whole or masked.

import type { Flow, Flows, Maybe } from '../api.ts';
import { byId, make, setText } from '../dom.ts';
import * as format from '../format.ts';
import { getJson } from '../net.ts';
import { recall, remember } from '../settings.ts';

interface Column {
    id: string;
    title: string;
    // What to sort by; a flow without it comes last either way.
    key: (flow: Flow) => Maybe<number | string>;
    text: (flow: Flow) => string;
    // Said in a second line on narrow screens, in place of the column it comes from.
    note?: (flow: Flow) => string;
    left?: boolean;
    // Left out on narrow screens.
    extra?: boolean;
}

const PERIOD_MS = 2_000;

// The round trip through the link, and the half that carries the data.
const rtt = (flow: Flow) => flow.up.rtt_mean_s;
const main = (flow: Flow) => (flow.direction === 'up' ? flow.up : flow.down);

// An IPv6 address with a port is in brackets.
function withoutPort(end: string): string {
    return end.slice(0, end.lastIndexOf(':')).replace(/^\[|\]$/g, '');
}

export class FlowsView {
    private readonly heads = byId('flow-heads');
    private readonly rows = byId<HTMLTableSectionElement>('flow-rows');
    private readonly limit = byId<HTMLSelectElement>('flows-limit');
    private readonly mask = byId<HTMLInputElement>('mask');
    private readonly columns: Column[];
    private sorted = { id: 'rate', descending: true };
    private report: Flows = { total: 0, flows: [] };
    private link: string | null = null;

    constructor() {
        const shown = (text: string) => (this.mask.checked ? format.masked(text) : text);
        // The host, where the address is translated, with the port by which the WAN knows the flow.
        const end = (flow: Flow, which: 'client' | 'server') => {
            if (flow.home !== which) return shown(flow[which]);
            const port = flow[which].slice(flow[which].lastIndexOf(':'));
            if (flow.home_host !== undefined) return `${shown(flow.home_host)} as ${port}`;
            return flow.traffic === 'gateway' ? `gateway${port}` : shown(flow[which]);
        };
        this.columns = [
            { id: 'client', title: 'Client', key: (f) => f.client, text: (f) => end(f, 'client'), left: true, extra: true },
            { id: 'server', title: 'Server', key: (f) => f.server, text: (f) => end(f, 'server'), note: (f) => `from ${end(f, 'client')}`, left: true },
            { id: 'direction', title: 'Data goes', key: (f) => f.direction, text: (f) => f.direction, left: true },
            {
                id: 'rate',
                title: 'Rate over 1 s',
                key: (f) => f.up.throughput_bps + f.down.throughput_bps,
                text: (f) => format.rate(main(f).throughput_bps),
            },
            { id: 'flight', title: 'Outstanding', key: (f) => main(f).in_flight_bytes, text: (f) => format.bytes(main(f).in_flight_bytes) },
            { id: 'rtt', title: 'Round trip to the internet', key: rtt, text: (f) => format.seconds(rtt(f)) },
            { id: 'again', title: 'Retransmitted', key: (f) => main(f).retransmitted_segments, text: (f) => format.count(main(f).retransmitted_segments), extra: true },
            { id: 'acks', title: 'Data per ACK', key: (f) => main(f).segments_per_ack, text: (f) => format.plain(main(f).segments_per_ack), extra: true },
            { id: 'age', title: 'Age', key: (f) => f.age_s, text: (f) => format.span(f.age_s), extra: true },
        ];
        this.mask.checked = recall('mask') === 'yes';
        this.mask.addEventListener('change', () => {
            remember('mask', this.mask.checked ? 'yes' : 'no');
            this.render();
        });
        this.limit.addEventListener('change', () => void this.refresh());
        this.heads.append(...this.columns.map((column) => this.head(column)));
        setInterval(() => void this.refresh(), PERIOD_MS);
    }

    // An address as the list shows it. Of a translated one: the host behind it; nothing if several share it.
    hostName(address: Maybe<string>): string | null {
        if (!address) return null;
        const isIt = (flow: Flow) => withoutPort(flow.home === 'server' ? flow.server : flow.client) === address;
        const behind = new Set(this.report.flows.filter(isIt).map((flow) => flow.home_host ?? address));
        const [host = address] = behind;
        if (behind.size > 1) return null;
        return this.mask.checked ? format.masked(host) : host;
    }

    setLink(link: string): void {
        if (link === this.link) return;
        this.link = link;
        void this.refresh();
    }

    private head(column: Column): HTMLElement {
        const button = make('button', { type: 'button' }, column.title, make('span', { 'aria-hidden': 'true' }));
        button.addEventListener('click', () => {
            const again = this.sorted.id === column.id;
            this.sorted = { id: column.id, descending: again ? !this.sorted.descending : !column.left };
            this.render();
        });
        return make('th', { scope: 'col', 'data-column': column.id, class: classOf(column) }, button);
    }

    // A hidden page asks for nothing; a failure leaves the old rows, and the connection's state says why.
    private async refresh(): Promise<void> {
        if (document.hidden || this.link === null) return;
        const asked = this.link;
        try {
            const query = `link=${encodeURIComponent(asked)}&limit=${this.limit.value}&sort=rate`;
            const report = await getJson<Flows>(`/api/v1/flows?${query}`);
            if (asked !== this.link) return;
            this.report = report;
            this.render();
        } catch {
            return;
        }
    }

    private render(): void {
        const column = this.columns.find(({ id }) => id === this.sorted.id) ?? this.columns[3];
        if (!column) return;
        const flows = [...this.report.flows].sort((a, b) => compare(column.key(a), column.key(b), this.sorted.descending));
        for (const head of this.heads.children) {
            const chosen = (head as HTMLElement).dataset['column'] === column.id;
            if (chosen) head.setAttribute('aria-sort', this.sorted.descending ? 'descending' : 'ascending');
            else head.removeAttribute('aria-sort');
            const arrow = head.querySelector('span');
            if (arrow) setText(arrow, chosen ? (this.sorted.descending ? ' ▼' : ' ▲') : '');
        }
        const missing = this.report.home_host_missing;
        setText(byId('flows-count'), `${flows.length} of ${this.report.total}${missing ? `; hosts behind NAT are not named: ${missing}` : ''}`);
        this.fit(Math.max(flows.length, 1));
        if (flows.length === 0) this.renderNone();
        flows.forEach((flow, index) => this.renderRow(flow, this.rows.rows[index] as HTMLTableRowElement));
    }

    // Rows are kept and rewritten: the pointer and a screen reader's place stay where they are.
    private fit(wanted: number): void {
        while (this.rows.rows.length > wanted) this.rows.deleteRow(-1);
        while (this.rows.rows.length < wanted) {
            const row = this.rows.insertRow();
            for (const column of this.columns) {
                row.append(make('td', { class: classOf(column) }, make('span'), ...(column.note ? [make('small')] : [])));
            }
        }
    }

    private renderNone(): void {
        const row = this.rows.rows[0] as HTMLTableRowElement;
        for (const part of row.querySelectorAll('span, small')) setText(part, '');
        const said = row.cells[1]?.firstElementChild;
        if (said) setText(said, 'no TCP connection seen');
        row.className = 'closed';
    }

    private renderRow(flow: Flow, row: HTMLTableRowElement): void {
        row.className = flow.state === 'closed' ? 'closed' : '';
        this.columns.forEach((column, index) => {
            const cell = row.cells[index];
            if (!cell) return;
            const [text, note] = cell.children;
            if (text) setText(text, column.text(flow));
            if (note) setText(note, column.note?.(flow) ?? '');
            if (column.id === 'direction') cell.className = `left ${flow.direction}`;
        });
    }
}

function classOf(column: Column): string {
    return `${column.left ? 'left' : ''} ${column.extra ? 'extra' : ''}`.trim();
}

function compare(a: Maybe<number | string>, b: Maybe<number | string>, descending: boolean): number {
    if (a == null || b == null) return a == b ? 0 : a == null ? 1 : -1;
    const order = typeof a === 'string' ? a.localeCompare(String(b), 'en', { numeric: true }) : a - Number(b);
    return descending ? -order : order;
}
