// Numbers as people read them: SI prefixes, three significant digits, a dash for what is not known.

import type { Maybe } from './api.ts';

export const UNKNOWN = '–';
const PREFIXES = ['', 'k', 'M', 'G', 'T'];

function known(value: Maybe<number>): value is number {
    return value !== null && value !== undefined && Number.isFinite(value);
}

// Three significant digits, without a trailing ".0" that says nothing.
function significant(value: number): string {
    const size = Math.abs(value);
    const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
    return value.toFixed(digits).replace(/\.0+$/, '');
}

function scaled(value: number, unit: string): string {
    let power = 0;
    let rest = value;
    // 999.5 would be written as 1000.
    while (Math.abs(rest) >= 999.5 && power < PREFIXES.length - 1) {
        rest /= 1000;
        power += 1;
    }
    const text = power === 0 ? String(Math.round(rest)) : significant(rest);
    return `${text} ${PREFIXES[power]}${unit}`;
}

export function bytes(value: Maybe<number>): string {
    return known(value) ? scaled(value, 'B') : UNKNOWN;
}

// What is not known where a figure of a buffer is expected. A dash would be read as 0.
export const NOT_KNOWN = 'unknown';

// Bytes in a buffer, with the band in which they are if they were not counted.
export function level(value: Maybe<number>, uncertainty?: Maybe<number>, source?: Maybe<string>): string {
    if (!known(value)) return NOT_KNOWN;
    const about = source === 'estimate' ? 'about ' : '';
    const band = known(uncertainty) && uncertainty > 0 ? ` ± ${bytes(uncertainty)}` : '';
    return `${about}${bytes(value)}${band}`;
}

export function rate(value: Maybe<number>): string {
    return known(value) ? scaled(value, 'bit/s') : UNKNOWN;
}

export function count(value: Maybe<number>): string {
    return known(value) ? value.toLocaleString('en-GB') : UNKNOWN;
}

export function plain(value: Maybe<number>): string {
    return known(value) ? significant(value) : UNKNOWN;
}

export function percent(value: Maybe<number>): string {
    return known(value) ? `${Math.round(value * 100)} %` : UNKNOWN;
}

// A measured time: ms below a second.
export function seconds(value: Maybe<number>): string {
    if (!known(value)) return UNKNOWN;
    if (value < 0.0995) return `${significant(value * 1000)} ms`;
    return value < 0.9995 ? `${Math.round(value * 1000)} ms` : `${significant(value)} s`;
}

// How long something has lasted.
export function span(value: Maybe<number>): string {
    if (!known(value)) return UNKNOWN;
    const whole = Math.max(0, Math.floor(value));
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

// A ratio r of downloads to uploads or of two rates.
export function ratio(value: Maybe<number>): string {
    return known(value) ? significant(value) : UNKNOWN;
}

// The figure of a rule, by the unit that its name ends with.
export function figure(name: string, value: number): string {
    if (name.endsWith('bytes_per_second')) return rate(value * 8);
    if (name.endsWith('_bytes')) return bytes(value);
    if (name.endsWith('_bps')) return rate(value);
    if (name.endsWith('_s') || name.endsWith('_seconds')) return seconds(value);
    if (name.endsWith('_share') || name.endsWith('utilization')) return percent(value);
    return plain(value);
}

// "uplink_bound_share" as words. The unit stands with the value.
export function words(name: string): string {
    return name.replace(/_(s|bytes|bps)$/, '').replace(/_bytes_per_second$/, '').replaceAll('_', ' ');
}

// Addresses keep what tells networks apart and lose the host: the last byte of IPv4, all below /48 of IPv6.
export function masked(address: string): string {
    const four = /^(\d+\.\d+\.\d+)\.\d+(:\d+)?$/.exec(address);
    if (four) return `${four[1]}.•${four[2] ?? ''}`;
    const six = /^\[([0-9a-fA-F:]+)\](:\d+)$/.exec(address) ?? /^([0-9a-fA-F]*:[0-9a-fA-F:]+)$/.exec(address);
    if (!six) return '•';
    const groups = (six[1] ?? '').split('::')[0]?.split(':').slice(0, 3) ?? [];
    return six[2] === undefined ? `${groups.join(':')}:•` : `[${groups.join(':')}:•]${six[2]}`;
}

// A clause as a sentence: with a capital, and a full stop if it has none.
export function sentence(text: string): string {
    return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`;
}
