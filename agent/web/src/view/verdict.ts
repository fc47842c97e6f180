// The answer: one sentence, what it costs, and what to do. The evidence is under "Why?".

import { DIRECTIONS, type DirectionName, type Link, type Maybe } from '../api.ts';
import { byId, Keyed, make, setAttribute, setText } from '../dom.ts';
import * as format from '../format.ts';
import { causeOf, NAMES } from './buffers.ts';
import { placeSentence } from './where.ts';

type Tone = 'bad' | 'warn' | 'good' | 'none';

interface Saying {
    // For lists of events.
    title: string;
    // At most twelve words.
    answer: string;
    meaning: string;
    tone: Tone;
}

const SAYINGS: Record<string, Saying> = {
    swinging: {
        title: 'Swinging',
        answer: 'Uploads and downloads starve each other in turn.',
        meaning: 'The data pendulum: the queue moves between both buffers, and the direction without it starves.',
        tone: 'warn',
    },
    locked_uplink: {
        title: 'Locked in the uplink',
        answer: 'Downloads starve behind your uploads.',
        meaning: 'The ACKs of downloads wait behind upload data in a buffer that never empties.',
        tone: 'bad',
    },
    locked_downlink: {
        title: 'Locked in the downlink',
        answer: 'Uploads starve behind your downloads.',
        meaning: 'The ACKs of uploads wait behind download data in a buffer that never empties.',
        tone: 'bad',
    },
    ack_compression: {
        title: 'ACK compression',
        answer: 'ACKs arrive in bursts; little is lost.',
        meaning: 'Both buffers fill and empty together. This is rare.',
        tone: 'none',
    },
    one_way: {
        title: 'One-way traffic',
        answer: 'One direction is busy; the other has nothing to lose.',
        meaning: 'Bulk data goes in one direction only.',
        tone: 'good',
    },
    balanced: {
        title: 'Balanced',
        answer: 'Bulk traffic goes both ways; neither direction starves.',
        meaning: 'Both directions get at least half of their rate.',
        tone: 'good',
    },
    clear: {
        title: 'Clear',
        answer: 'No bulk traffic on this link.',
        meaning: 'Neither direction would use more of the link if it got more.',
        tone: 'good',
    },
    unknown: {
        title: 'Unknown',
        answer: 'Unknown: evidence is missing.',
        meaning: 'The evidence is not sufficient for a verdict.',
        tone: 'none',
    },
};

// A finding on top of a verdict that needs no action.
const WAITING: Record<DirectionName, string> = {
    up: 'All outgoing traffic waits in the uplink’s buffer.',
    down: 'All incoming traffic waits in the downlink’s buffer.',
};

// What to do about missing evidence: the first that applies.
const REMEDIES: [string, string][] = [
    ['uplink_rate', 'Configure uplink-rate and downlink-rate for this link.'],
    ['downlink_rate', 'Configure uplink-rate and downlink-rate for this link.'],
    ['base_round_trip', 'Pause the traffic for a moment, so that the delay without queues is seen.'],
    ['upload_demand', 'Keep the traffic running for a minute.'],
    ['download_demand', 'Keep the traffic running for a minute.'],
];

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

// What to do about a verdict, by the state of the shaper.
const SHAPER: Record<string, string> = {
    dry_run: 'The shaper only counts: set mode = "auto" in [shape].',
    observing: 'The shaper compares with and without: wait for its result.',
    enforcing: 'The shaper is on: check its rate.',
};

const LAST = 'Last known:';
const NOTHING_TO_DO = 'Nothing to do.';
// Old names that the agent sends beside the new ones for a release.
const RENAMED = ['starved_bytes_per_second'];

export class VerdictView {
    private readonly card = byId('verdict');
    private readonly name = byId('verdict-name');
    private readonly second = byId('second');
    private readonly cost = byId('cost');
    private readonly action = byId('action');
    private readonly reason = byId('reason');
    private readonly meaning = byId('meaning');
    private readonly evidence = new Keyed(byId('evidence'));
    private readonly missing = byId('missing');
    private readonly bloat = new Keyed(byId('bufferbloat'));
    private readonly facts = new Keyed(byId('facts'));
    private readonly announcement = byId('announcement');
    private announced: string | null = null;

    show(link: Link, host: Maybe<string>): void {
        const saying = sayingOf(link);
        const bloated = worstDelay(link);
        const isCalm = saying.tone === 'good' || saying.tone === 'none';
        // A delay for everything is not well, whatever the verdict.
        const isWaiting = bloated !== null && isCalm;
        const verdict = isWaiting ? WAITING[bloated] : saying.answer;
        const place = placeSentence(link, isCalm && !isWaiting, host);
        // Where it waits is the answer if nothing else is wrong.
        const isElsewhere = isCalm && !isWaiting && place !== '';
        const [answer, second] = isElsewhere ? [place, verdict] : [verdict, place];
        setText(this.name, answer);
        setText(this.second, second);
        setText(this.cost, costOf(link, bloated));
        setText(this.action, isElsewhere ? 'See “Where the delay is”.' : actionOf(link, bloated, saying.tone));
        setText(this.reason, reasonOf(link));
        setText(this.meaning, saying.meaning);
        setAttribute(this.card, 'data-tone', toneOf(link, isElsewhere ? 'none' : saying.tone));
        setAttribute(this.card, 'data-verdict', link.verdict ?? '');
        // Screen readers hear of a new verdict, not of every change of a figure.
        const key = `${link.name}/${answer}`;
        if (this.announced !== key) {
            this.announced = key;
            setText(this.announcement, `Link ${link.name}: ${answer} ${costOf(link, bloated)}`);
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
        // The cost and the action were those of that moment.
        setText(this.second, '');
        setText(this.cost, '');
        setText(this.action, '');
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
                    `all traffic waits ${format.seconds(bloat.delay_s)}. ${causeOf(bloat.cause)} ${format.sentence(bloat.help)}`,
                ),
            ),
        );
    }

    private showFacts(link: Link): void {
        const ratio = link.throughput_ratio;
        const facts: [string, string, string][] = [
            ['Since', format.span(link.verdict_for_s), ''],
            ...(link.shape && link.shape.state !== 'off' ? [['Shaper', format.words(link.shape.state), ''] as [string, string, string]] : []),
            ...fact('Swing period', link.swing_period_s, format.seconds),
            ...fact('Queue correlation', link.queue_correlation, signed),
            // Without TCP in both directions there is no ratio.
            ...fact('Download : upload', ratio?.measured, format.ratio, predicted(ratio?.predicted)),
        ];
        this.facts.update(JSON.stringify(facts), () =>
            facts.map(([name, value, note]) =>
                make('div', {}, make('dt', {}, name), make('dd', {}, value, make('small', {}, note))),
            ),
        );
    }
}

// A fact that is known.
function fact(name: string, value: Maybe<number>, write: (value: number) => string, note = ''): [string, string, string][] {
    return value == null ? [] : [[name, write(value), note]];
}

function signed(value: number): string {
    return value.toFixed(2).replace('-', '−');
}

function predicted(value: Maybe<number>): string {
    return value == null ? '' : ` model ${format.ratio(value)}`;
}

// The colour of the agent's severity; a verdict without urgency keeps its own.
function toneOf(link: Link, tone: Tone): Tone {
    if (link.trouble || !link.attached || !link.evidence) return tone;
    if (link.severity === 'critical') return 'bad';
    if (link.severity === 'warning') return 'warn';
    return tone === 'bad' || tone === 'warn' ? 'none' : tone;
}

// The direction whose buffer delays all traffic longest.
function worstDelay(link: Link): DirectionName | null {
    const delay = (name: DirectionName) => link.bufferbloat?.[name]?.delay_s ?? 0;
    const worst = DIRECTIONS.reduce((one, other) => (delay(other) > delay(one) ? other : one));
    return delay(worst) > 0 ? worst : null;
}

// From here on a loss matters: model/src/degree.rs.
const LOSS = 0.25;

// The direction that loses: by the verdict, or by which buffer is full.
function losers(link: Link): 'Uploads' | 'Downloads' {
    const isFull = (name: string) => (link.evidence?.figures ?? []).some((figure) => figure.name === name && figure.value >= 0.5);
    const uploads = link.verdict === 'locked_downlink' || (link.verdict === 'balanced' && isFull('downlink_bound_share'));
    return uploads ? 'Uploads' : 'Downloads';
}

// A loss of up to a half is not the same as starving, whichever name the verdict has.
function slowed(link: Link, saying: Saying): Saying {
    const lost = link.lost_ratio ?? 0;
    const isBalanced = link.verdict === 'balanced';
    if (lost < LOSS || (lost > 0.5 && !isBalanced)) return saying;
    const others = losers(link) === 'Uploads' ? 'downloads' : 'uploads';
    return {
        ...saying,
        answer: `${losers(link)} are slowed behind your ${others}.`,
        meaning: `One buffer is full most of the time. ${losers(link)} get a part of their rate.`,
        tone: 'warn',
    };
}

// One number: the share of the rate that is lost, else the delay.
function costOf(link: Link, bloated: DirectionName | null): string {
    if ((link.lost_ratio ?? 0) >= (link.verdict === 'balanced' ? LOSS : 0.01)) {
        return `${losers(link)} lose ${format.percent(link.lost_ratio)} of their rate`;
    }
    return bloated === null ? '' : `+${format.seconds(link.bufferbloat[bloated]?.delay_s)} of delay`;
}

function actionOf(link: Link, bloated: DirectionName | null, tone: Tone): string {
    if (link.trouble || !link.attached || !link.evidence) return '';
    const { state, reason } = link.shape ?? {};
    if (reason && state !== 'declined') return format.sentence(reason);
    if (bloated !== null) return format.sentence(link.bufferbloat[bloated]?.help ?? 'shape this direction');
    if (link.verdict === 'unknown') {
        const missing = link.evidence.missing ?? [];
        return REMEDIES.find(([name]) => missing.includes(name))?.[1] ?? 'Keep the traffic running for a minute.';
    }
    if (tone === 'good' || tone === 'none') return NOTHING_TO_DO;
    return SHAPER[state ?? ''] ?? format.sentence(reason ?? 'Shape the link: set mode = "auto" in [shape]');
}

function sayingOf(link: Link): Saying {
    if (link.trouble || !link.attached) {
        return { title: 'Not measured', answer: 'Not measured: packets pass, the agent keeps trying.', meaning: '', tone: 'bad' };
    }
    // The agent begins with `clear`, before it has judged anything.
    if (!link.verdict || !link.evidence) return { title: 'No verdict yet', answer: 'No verdict yet.', meaning: '', tone: 'none' };
    const plain = titleOf(link.verdict);
    const saying = SAYINGS[link.verdict];
    return saying ? slowed(link, saying) : { title: plain, answer: `${plain}.`, meaning: '', tone: 'none' };
}

export function titleOf(verdict: string): string {
    return SAYINGS[verdict]?.title ?? verdict.replaceAll('_', ' ');
}

function reasonOf(link: Link): string {
    if (link.trouble) return link.trouble;
    if (!link.attached) return `the device ${link.wan} is ${link.device}`;
    return link.evidence?.reason ?? 'the detector has not seen enough traffic to say anything';
}
