//! An hour of stream in a minute: the page's memory has to stay as it is.

use std::path::Path;

use pendulum_lab::agent::Agent;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::{PENDULUM, lab};

/// Takes the first tick and state of the real stream, then lets the test go on with the stream in the agent's place.
const REPLAY: &str = r"
const real = window.fetch;
const part = (text, name) => new RegExp(`event: ?${name}\\ndata: ?(.*)\\n`).exec(text)?.[1];
window.fetch = async (input, init) => {
    const answer = await real(input, init);
    if (!String(input).startsWith('/api/v1/stream') || !answer.ok) return answer;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!part(text, 'tick') || !part(text, 'state')) text += (await reader.read()).value;
    reader.cancel();
    const replay = { tick: JSON.parse(part(text, 'tick')), state: JSON.parse(part(text, 'state')), ticks: 0 };
    window.replay = replay;
    const body = new ReadableStream({ start: (controller) => { replay.out = controller; } });
    return new Response(body, { status: 200, headers: answer.headers });
};
const frame = () => new Promise((done) => requestAnimationFrame(done));
// A minute of ticks that swing, with the state of each second, a finding now and then, and a few frames to draw.
window.minute = async () => {
    const { replay } = window;
    const bytes = new TextEncoder();
    let text = '';
    for (let i = 0; i < 600; i += 1) {
        replay.ticks += 1;
        replay.tick.at_s += 0.1;
        const level = (shift) => Array.from({ length: 10 }, (_, j) => Math.max(0, 30000 * Math.sin((replay.ticks + j / 10) / 4 + shift)));
        replay.tick.up.queue_bytes = level(0);
        replay.tick.up.queue_ack_bytes = level(0).map((value) => value / 4);
        replay.tick.down.queue_bytes = level(3);
        replay.tick.phase = ['uplink_bound', 'downlink_bound', 'balanced', 'idle'][Math.floor(replay.ticks / 13) % 4];
        text += `event: tick\ndata: ${JSON.stringify(replay.tick)}\n\n`;
        if (i % 10 === 0) {
            replay.state.verdict = ['swinging', 'locked_uplink', 'one_way'][Math.floor(replay.ticks / 700) % 3];
            replay.state.phase = replay.tick.phase;
            replay.state.degraded = [`sentence ${replay.ticks}`];
            text += `event: state\ndata: ${JSON.stringify(replay.state)}\n\n`;
        }
        if (i % 50 === 0) {
            const finding = { seq: 1e6 + replay.ticks, link: replay.tick.link, time: new Date().toISOString(), at_s: replay.tick.at_s,
                event: 'verdict', from: 'one_way', to: 'swinging', evidence: { rule: 'r', reason: `reason ${replay.ticks}`, figures: [], since_s: 1 } };
            text += `event: finding\ndata: ${JSON.stringify(finding)}\n\n`;
        }
        if (i % 100 === 99) {
            replay.out.enqueue(bytes.encode(text));
            text = '';
            await frame();
        }
    }
    await frame();
    return replay.ticks;
};
";

const MINUTES_BEFORE: usize = 5;
const MINUTES: usize = 60;
/// What the engine itself may need more after an hour: compiled code, caches of strings.
const ALLOWED_BYTES: f64 = 1.5e6;
const ALLOWED_NODES: u64 = 100;

#[test]
fn an_hour_of_stream_does_not_grow_the_page() {
    let Some((_guard, lab)) = lab("an_hour_of_stream_does_not_grow_the_page") else { return };
    let agent = Agent::start(&lab, Path::new(PENDULUM)).unwrap();
    let mut browser = Browser::start(&lab, REPLAY);
    browser.look(1000, 800, 1.0, false);
    browser.call("Page.navigate", json!({ "url": "http://127.0.0.1:9924/" }));
    browser.wait_until("the stream is taken over", "!!window.replay?.out");
    let minutes = |browser: &mut Browser, count: usize| -> Value {
        (0..count).map(|_| browser.evaluate("window.minute()")).last().unwrap()
    };
    minutes(&mut browser, MINUTES_BEFORE);
    let (bytes_before, nodes_before) = browser.memory();
    let ticks = minutes(&mut browser, MINUTES);
    let (bytes, nodes) = browser.memory();
    assert_eq!(ticks, 600 * (MINUTES_BEFORE + MINUTES));
    // The page has really followed.
    browser.wait_until(
        "the newest sentence is shown",
        &format!(
            "document.getElementById('sources').textContent.includes('sentence {}')",
            600 * (MINUTES_BEFORE + MINUTES) - 9
        ),
    );
    println!("heap {bytes_before} → {bytes} bytes, {nodes_before} → {nodes} DOM nodes");
    assert!(
        bytes - bytes_before < ALLOWED_BYTES,
        "an hour took the heap from {bytes_before} to {bytes} bytes"
    );
    assert!(
        nodes < nodes_before + ALLOWED_NODES,
        "an hour took the page from {nodes_before} to {nodes} DOM nodes"
    );
    assert!(browser.reported("Runtime.exceptionThrown").is_empty());
    agent.stop().unwrap();
}
