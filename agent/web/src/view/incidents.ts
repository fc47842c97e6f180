// Recordings of what lasted, newest first: a picture of both buffers, and the file.

import type { Incident, Incidents, Maybe } from '../api.ts';
import { byId, Keyed, make } from '../dom.ts';
import * as format from '../format.ts';
import { getBlob, getJson } from '../net.ts';
import { titleOf } from './verdict.ts';

const PERIOD_MS = 30_000;
const SHOWN = 20;
const WIDTH = 180;
const HEIGHT = 36;

export class IncidentsView {
    private readonly list = new Keyed(byId('incidents'));
    private link: string | null = null;

    constructor() {
        setInterval(() => void this.refresh(), PERIOD_MS);
    }

    setLink(link: string): void {
        if (link === this.link) return;
        this.link = link;
        void this.refresh();
    }

    // A hidden page asks for nothing; a failure leaves the old list, and the connection's state says why.
    private async refresh(): Promise<void> {
        const asked = this.link;
        if (document.hidden || asked === null) return;
        const answer = await getJson<Incidents>('/api/v1/incidents').catch(() => null);
        if (answer === null || asked !== this.link) return;
        const incidents = answer.incidents.filter(({ link }) => link === asked).slice(0, SHOWN);
        const said = answer.trouble ?? (incidents.length === 0 ? 'None: no lock, swing or finding has lasted 10 s.' : null);
        this.list.update(JSON.stringify([said, incidents]), () => [
            ...(said === null ? [] : [make('li', {}, make('p', { class: 'quiet' }, format.sentence(said)))]),
            ...incidents.map(item),
        ]);
    }
}

function item(incident: Incident): HTMLElement {
    const at = new Date(incident.time);
    const shown = `${at.toLocaleDateString('en-CA')} ${at.toLocaleTimeString('en-GB')}`;
    const where = incident.direction ? `, ${incident.direction}link` : '';
    const lost = incident.lost_ratio == null ? '' : `, ${format.percent(incident.lost_ratio)} of the rate lost`;
    const download = make('button', { type: 'button' }, 'Download');
    download.setAttribute('aria-label', `Download the incident of ${shown}`);
    download.addEventListener('click', () => void save(incident.id, download));
    return make(
        'li',
        { 'data-severity': incident.severity },
        make('time', { datetime: incident.time, title: incident.time }, shown),
        make('b', {}, `${titleOfIncident(incident.what)}${where}${lost}`),
        make('p', { class: 'quiet' }, format.sentence(incident.reason)),
        picture(incident),
        download,
    );
}

function titleOfIncident(what: string): string {
    const title = titleOf(what).replace(/\brtt\b/, 'RTT');
    return title.charAt(0).toUpperCase() + title.slice(1);
}

// Both levels over the recording, each against its own highest; a mark where the change was recognised.
function picture(incident: Incident): Element {
    const { up_queue_bytes: up, down_queue_bytes: down, before_s, step_s } = incident;
    const steps = Math.max(up.length, down.length, 2);
    const x = (step: number) => (step * WIDTH) / (steps - 1);
    const most = (levels: Maybe<number>[]) => Math.max(1, ...levels.map((level) => level ?? 0));
    const label = `Buffers over ${Math.round(steps * step_s)} s: uplink up to ${format.bytes(most(up))}, downlink up to ${format.bytes(most(down))}`;
    const svg = shape('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': label });
    const mark = x(before_s / step_s).toFixed(1);
    svg.append(shape('path', { class: 'mark', d: `M${mark} 0V${HEIGHT}` }));
    for (const [name, levels] of [['up', up], ['down', down]] as const) {
        const high = most(levels);
        let pen = 'M';
        const path = levels.map((level, step) => {
            if (level == null) {
                pen = 'M';
                return '';
            }
            const point = `${pen}${x(step).toFixed(1)} ${(HEIGHT - 1 - (level / high) * (HEIGHT - 2)).toFixed(1)}`;
            pen = 'L';
            return point;
        });
        svg.append(shape('path', { class: name, d: path.join('') }));
    }
    return svg;
}

function shape(name: string, attributes: Record<string, string>): Element {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
}

// Not a plain link: that would not carry the token.
async function save(id: string, button: HTMLButtonElement): Promise<void> {
    button.disabled = true;
    try {
        const address = URL.createObjectURL(await getBlob(`/api/v1/incidents/${encodeURIComponent(id)}`));
        make('a', { href: address, download: `${id}.json` }).click();
        setTimeout(() => URL.revokeObjectURL(address), 10_000);
        button.textContent = 'Download';
    } catch (error) {
        button.textContent = error instanceof Error ? error.message : String(error);
    } finally {
        button.disabled = false;
    }
}
