// Light, dark, or what the system prefers. Charts are redrawn, since a canvas does not follow style sheets.

import { DECISIONS, type DecisionName, type PhaseName } from './api.ts';
import { recall, remember } from './settings.ts';

export interface Colours {
    text: string;
    quiet: string;
    grid: string;
    means: string;
    surface: string;
    idle: string;
    up: string;
    upFill: string;
    upAck: string;
    down: string;
    downFill: string;
    downAck: string;
    phases: Record<PhaseName, string>;
    decisions: Record<DecisionName, string>;
    segments: Record<'home' | 'gateway' | 'uplink' | 'downlink' | 'beyond', string>;
}

const system = matchMedia('(prefers-color-scheme: dark)');
const listeners: (() => void)[] = [];
let choice = 'auto';
// Read once for each theme: charts ask for them in every frame.
let cached: Colours | null = null;

function apply(): void {
    const dark = choice === 'dark' || (choice === 'auto' && system.matches);
    document.documentElement.dataset['theme'] = dark ? 'dark' : 'light';
    cached = null;
    for (const listener of listeners) listener();
}

export function startTheme(group: HTMLElement): void {
    choice = recall('theme') ?? 'auto';
    for (const input of group.querySelectorAll('input')) {
        input.checked = input.value === choice;
        input.addEventListener('change', () => {
            choice = input.value;
            remember('theme', choice);
            apply();
        });
    }
    system.addEventListener('change', apply);
    apply();
}

export function onTheme(listener: () => void): void {
    listeners.push(listener);
}

export function colours(): Colours {
    cached ??= read();
    return cached;
}

function read(): Colours {
    const style = getComputedStyle(document.documentElement);
    const of = (name: string) => style.getPropertyValue(`--${name}`).trim();
    return {
        text: of('text'),
        quiet: of('quiet'),
        grid: of('grid'),
        means: of('means'),
        surface: of('surface'),
        idle: of('idle'),
        up: of('up'),
        upFill: of('up-fill'),
        upAck: of('up-ack'),
        down: of('down'),
        downFill: of('down-fill'),
        downAck: of('down-ack'),
        phases: {
            uplink_bound: of('phase-uplink_bound'),
            downlink_bound: of('phase-downlink_bound'),
            balanced: of('phase-balanced'),
            idle: of('phase-idle'),
        },
        decisions: Object.fromEntries(DECISIONS.map((name) => [name, of(`decision-${name}`)])) as Record<DecisionName, string>,
        segments: { home: of('kind-udp'), gateway: of('kind-other'), uplink: of('up'), downlink: of('down'), beyond: of('kind-tcp_data') },
    };
}
