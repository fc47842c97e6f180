// Requests to the agent: JSON once, or a stream of server-sent events. `fetch` rather than EventSource: it can carry
// the bearer token, and says why a connection failed.

import { getToken } from './settings.ts';

export class HttpError extends Error {
    constructor(
        readonly status: number,
        message: string,
    ) {
        super(message);
    }
}

function request(
    path: string,
    accept: string,
    signal: AbortSignal,
    more: Record<string, string> = {},
): Promise<Response> {
    const headers: Record<string, string> = { Accept: accept, ...more };
    const token = getToken();
    if (token) headers['Authorization'] = `Bearer ${token}`;
    return fetch(path, { headers, signal, cache: 'no-store', credentials: 'omit' });
}

async function checked(response: Response): Promise<Response> {
    if (response.ok) return response;
    const body = (await response.json().catch(() => null)) as { error?: { reason?: string } } | null;
    throw new HttpError(response.status, body?.error?.reason ?? `status ${response.status}`);
}

const PATIENCE_MS = 5_000;

export async function getJson<T>(path: string): Promise<T> {
    const response = await checked(await request(path, 'application/json', AbortSignal.timeout(PATIENCE_MS)));
    return (await response.json()) as T;
}

export async function getBlob(path: string): Promise<Blob> {
    const response = await checked(await request(path, 'application/json', AbortSignal.timeout(4 * PATIENCE_MS)));
    return response.blob();
}

export interface StreamEvent {
    name: string;
    data: string;
}

// An event larger than this is not ours.
const MAX_EVENT = 1 << 20;

// Reads events until the stream ends, fails, or is silent for too long (the agent sends ten a second). `after`: the id
// of what is known already, if there is one.
export async function* readStream(
    path: string,
    after: string | null,
    stop: AbortSignal,
): AsyncGenerator<StreamEvent> {
    const silence = new AbortController();
    const give_up = () => silence.abort(new Error('the stream is silent'));
    let timer = setTimeout(give_up, PATIENCE_MS);
    const forward = () => silence.abort(stop.reason);
    stop.addEventListener('abort', forward);
    if (stop.aborted) forward();
    try {
        const response = await checked(await request(
                path,
                'text/event-stream',
                silence.signal,
                after === null ? {} : { 'Last-Event-ID': after },
            ));
        if (!response.body) throw new Error('the answer has no body');
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = '';
        for (;;) {
            const { done, value } = await reader.read();
            if (done) return;
            clearTimeout(timer);
            timer = setTimeout(give_up, PATIENCE_MS);
            rest += value.replaceAll('\r', '');
            if (rest.length > MAX_EVENT) throw new Error('an event is too long');
            const blocks = rest.split('\n\n');
            rest = blocks.pop() ?? '';
            for (const block of blocks) {
                const event = parseEvent(block);
                if (event) yield event;
            }
        }
    } finally {
        clearTimeout(timer);
        stop.removeEventListener('abort', forward);
        silence.abort();
    }
}

function parseEvent(block: string): StreamEvent | null {
    let name = 'message';
    const data: string[] = [];
    for (const line of block.split('\n')) {
        const colon = line.indexOf(':');
        if (colon <= 0) continue; // a comment keeps the connection alive
        const value = line.slice(colon + 1).replace(/^ /, '');
        if (line.startsWith('event:')) name = value;
        else if (line.startsWith('data:')) data.push(value);
    }
    return data.length > 0 ? { name, data: data.join('\n') } : null;
}
