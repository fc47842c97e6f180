// The verdict, in words: what is said, why, and what it means for who uses the link.

import { DIRECTIONS, type Link, type Maybe } from '../api.ts';
import { byId, Keyed, make, setAttribute, setText } from '../dom.ts';
import * as format from '../format.ts';
import { causeOf, NAMES } from './buffers.ts';

interface Saying {
    title: string;
    meaning: string;
    tone: 'bad' | 'warn' | 'good' | 'none';
}

const SAYINGS: Record<string, Saying> = {
    swinging: {
        title: 'Swinging',
        meaning: 'The data pendulum: each direction starves in turn while the other one’s buffer is full.',
        tone: 'warn',
    },
    locked_uplink: {
        title: 'Locked in the uplink',
        meaning: 'Downloads starve, because their ACKs wait behind upload data in a buffer that never empties.',
        tone: 'bad',
    },
    locked_downlink: {
        title: 'Locked in the downlink',
        meaning: 'Uploads starve, because their ACKs wait behind download data in a buffer that never empties.',
        tone: 'bad',
    },
    ack_compression: {
        title: 'ACK compression',
        meaning: 'Both buffers fill and empty together and ACKs come in bursts: rare, and of little harm.',
        tone: 'none',
    },
    one_way: {
        title: 'One-way traffic',
        meaning: 'Bulk data goes in one direction only: the other one has none that could starve.',
        tone: 'good',
    },
    balanced: {
        title: 'Balanced',
        meaning: 'Bulk data goes both ways and both directions get on.',
        tone: 'good',
    },
    clear: {
        title: 'Clear',
        meaning: 'No bulk data in either direction: nothing stands in the way.',
        tone: 'good',
    },
    unknown: {
        title: 'Not known',
        meaning: 'Bulk data goes both ways, and the evidence does not suffice to judge its queues.',
        tone: 'none',
    },
};

// The names of what may be missing: docs/reference/api-fields.md.
const MISSING: Record<string, string> = {
    uplink_queue: 'the level of the uplink’s buffer',
    downlink_queue: 'the level of the downlink’s buffer',
    uplink_rate: 'the uplink’s rate',
    downlink_rate: 'the downlink’s rate',
    round_trip: 'the round-trip time',
    base_round_trip: 'the round-trip time without queues',
    upload_demand: 'whether the upload’s datagrams are held back',
    download_demand: 'whether the download’s datagrams are held back',
};

const LAST = 'Last known:';
// Old names that the agent sends beside the new ones for a release.
const RENAMED = ['starved_bytes_per_second'];

export class VerdictView {
    private readonly card = byId('verdict');
    private readonly name = byId('verdict-name');
    private readonly reason = byId('reason');
    private readonly meaning = byId('meaning');
    private readonly evidence = new Keyed(byId('evidence'));
    private readonly missing = byId('missing');
    private readonly bloat = new Keyed(byId('bufferbloat'));
    private readonly facts = new Keyed(byId('facts'));
    private readonly announcement = byId('announcement');
    private announced: string | null = null;

    show(link: Link): void {
        const saying = sayingOf(link);
        setText(this.name, saying.title);
        setText(this.reason, reasonOf(link));
        setText(this.meaning, saying.meaning);
        const isBloated = DIRECTIONS.some((name) => link.bufferbloat?.[name]);
        // A link that makes everything wait is not well, whatever else is said of it.
        const isCalm = saying.tone === 'good' || saying.tone === 'none';
        setAttribute(this.card, 'data-tone', isBloated && isCalm ? 'warn' : saying.tone);
        setAttribute(this.card, 'data-verdict', link.verdict ?? '');
        // Screen readers hear of a new verdict, not of every change of a figure.
        const key = `${link.name}/${link.verdict}`;
        if (this.announced !== key) {
            this.announced = key;
            setText(this.announcement, `Link ${link.name}: ${saying.title}. ${reasonOf(link)}`);
        }
        this.showEvidence(link);
        this.showBufferbloat(link);
        this.showFacts(link);
    }

    // Nothing comes any more: what was said last was true then.
    lost(): void {
        const said = this.name.textContent ?? '';
        if (this.announced === null || said.startsWith(LAST)) return;
        setText(this.name, `${LAST} ${said.charAt(0).toLowerCase()}${said.slice(1)}`);
        setAttribute(this.card, 'data-tone', 'none');
        this.announced = '';
    }

    private showEvidence(link: Link): void {
        const figures = (link.evidence?.figures ?? []).filter((figure) => !RENAMED.includes(figure.name));
        const texts = figures.map((figure): [string, string, string] => [
            format.words(figure.name),
            format.figure(figure.name, figure.value),
            figure.threshold === undefined ? '' : ` (threshold ${format.figure(figure.name, figure.threshold)})`,
        ]);
        this.evidence.update(JSON.stringify(texts), () =>
            texts.map(([name, value, threshold]) => make('li', {}, `${name} `, make('b', {}, value), threshold)),
        );
        const missing = (link.evidence?.missing ?? []).map((name) => MISSING[name] ?? format.words(name));
        this.missing.hidden = missing.length === 0;
        setText(this.missing, missing.length === 0 ? '' : `Missing evidence: ${missing.join('; ')}.`);
    }

    private showBufferbloat(link: Link): void {
        const found = DIRECTIONS.flatMap((name) => {
            const bloat = link.bufferbloat?.[name];
            return bloat ? [{ name, bloat }] : [];
        });
        this.bloat.update(JSON.stringify(found), () =>
            found.map(({ name, bloat }) =>
                make(
                    'li',
                    { 'data-direction': name },
                    make('b', {}, `Bufferbloat in the ${NAMES[name]}: `),
                    `everything waits ${format.seconds(bloat.delay_s)}. ${causeOf(bloat.cause)} ${format.sentence(bloat.help)}`,
                ),
            ),
        );
    }

    private showFacts(link: Link): void {
        const ratio = link.throughput_ratio;
        const facts: [string, string, string][] = [
            ['Verdict since', format.span(link.verdict_for_s), ''],
            ['Swing period', format.seconds(link.swing_period_s), ''],
            ['Queue correlation', signed(link.queue_correlation), ''],
            ['Download : upload', format.ratio(ratio?.measured), predicted(ratio?.predicted)],
        ];
        this.facts.update(JSON.stringify(facts), () =>
            facts.map(([name, value, note]) =>
                make('div', {}, make('dt', {}, name), make('dd', {}, value, make('small', {}, note))),
            ),
        );
    }
}

function signed(value: Maybe<number>): string {
    return value == null ? format.UNKNOWN : value.toFixed(2).replace('-', '−');
}

function predicted(value: Maybe<number>): string {
    return value == null ? '' : ` model ${format.ratio(value)}`;
}

function sayingOf(link: Link): Saying {
    if (link.trouble || !link.attached) {
        return { title: 'Not measured', meaning: 'Packets pass as always; the agent goes on trying.', tone: 'bad' };
    }
    // The agent begins with `clear`, before it has judged anything.
    if (!link.verdict || !link.evidence) return { title: 'No verdict yet', meaning: '', tone: 'none' };
    return SAYINGS[link.verdict] ?? { title: link.verdict.replaceAll('_', ' '), meaning: '', tone: 'none' };
}

export function titleOf(verdict: string): string {
    return SAYINGS[verdict]?.title ?? verdict.replaceAll('_', ' ');
}

function reasonOf(link: Link): string {
    if (link.trouble) return link.trouble;
    if (!link.attached) return `the device ${link.wan} is ${link.device}`;
    return link.evidence?.reason ?? 'the detector has not seen enough traffic to say anything';
}
