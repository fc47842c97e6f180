//! The page beside the agent's own answers, through a restart, in every form.

use std::path::Path;
use std::time::Duration;

use pendulum_lab::agent::Agent;
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_model::segment::Direction;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::{PENDULUM, lab};

/// Keeps what the page was sent last, and what the policy forbade. While `shown` reads the page, it is sent nothing more.
pub(crate) const WITNESS: &str = r"
window.sent = { violations: [], passing: Promise.resolve() };
addEventListener('securitypolicyviolation', (event) => window.sent.violations.push(event.violatedDirective));
window.sent.shown = async (read) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    let release;
    window.sent.passing = new Promise((done) => (release = done));
    // What it was sent before is drawn as soon as it has nothing else to do.
    await frame();
    await frame();
    await new Promise((done) => requestIdleCallback(done));
    const shown = read();
    release();
    return shown;
};
const witness = () => {
    let rest = '';
    return new TransformStream({
        async transform(text, page) {
            await window.sent.passing;
            const blocks = (rest + text).split('\n\n');
            rest = blocks.pop();
            for (const block of blocks) {
                const found = /^event: ?(\w+)\ndata: ?(.*)$/m.exec(block);
                if (found) window.sent[found[1]] = JSON.parse(found[2]);
            }
            page.enqueue(text);
        },
    });
};
const real = window.fetch;
window.fetch = async (input, init) => {
    const answer = await real(input, init);
    if (!answer.ok) return answer;
    if (String(input).startsWith('/api/v1/flows')) {
        const flows = await answer.json();
        await window.sent.passing;
        window.sent.flows = flows;
        answer.json = async () => flows;
    }
    if (!String(input).startsWith('/api/v1/stream')) return answer;
    const passed = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(witness()).pipeThrough(new TextEncoderStream());
    return new Response(passed, { status: answer.status, headers: answer.headers });
};
";

/// What the page was sent, and what it shows of that.
const SHOWN: &str = r"window.sent.shown(() => {
    const text = (id) => document.getElementById(id).textContent;
    const cells = (row) => [...row.cells].map((cell) => cell.firstElementChild?.textContent ?? cell.textContent);
    return {
        state: window.sent.state, tick: window.sent.tick, flows: window.sent.flows,
        verdict: document.getElementById('verdict').dataset.verdict, reason: text('reason'),
        levels: ['level-up', 'level-up-ack', 'level-down', 'level-down-ack', 'rtt-up'].map(text),
        figures: Object.fromEntries([...document.getElementById('figures').rows].map((row) => [row.cells[0].textContent, cells(row).slice(1)])),
        rows: [...document.getElementById('flow-rows').rows].map(cells),
        sources: text('sources'), advice: text('advice'),
        phase: document.querySelector('#share-list .now')?.textContent ?? null,
    };
})";

pub(crate) const URL: &str = "http://127.0.0.1:9924/";

#[test]
fn the_page_shows_what_the_agent_says_and_survives_its_restart() {
    let Some((_guard, lab)) = lab("the_page_shows_what_the_agent_says_and_survives_its_restart") else {
        return;
    };
    let agent = Agent::start(&lab, Path::new(PENDULUM)).unwrap();
    let transfer =
        |direction| Transfer::start(&lab, TransferSpec::new(direction, Duration::from_secs(600))).unwrap();
    let _transfers = [transfer(Direction::Down), transfer(Direction::Up)];
    let mut browser = Browser::start(&lab, WITNESS);
    browser.look(1360, 940, 1.0, false);
    browser.call("Page.navigate", json!({ "url": URL }));
    wait_live(&mut browser);
    browser.wait_until("both flows are listed", "document.getElementById('flow-rows').rows.length >= 2");
    browser.wait_until(
        "the uplink queue is shown",
        "document.getElementById('level-up').textContent.endsWith('kB')",
    );

    let shown = browser.evaluate(SHOWN);
    check_against_the_stream(&shown);
    check_against_the_agent(&agent, &shown);
    check_flows(&mut browser);
    check_scale(&mut browser);
    check_memory(&agent, &mut browser);
    pictures(&mut browser);

    agent.stop().unwrap();
    browser.wait_until("the page says that the agent is gone", "!document.getElementById('notice').hidden");
    assert!(browser.text("notice").contains("The figures are old"), "{}", browser.text("notice"));
    check_nothing_is_said_of_the_present(&mut browser);
    picture(&mut browser, "down");
    let agent = Agent::start(&lab, Path::new(PENDULUM)).unwrap();
    wait_live(&mut browser);
    browser.wait_until("the notice is gone", "document.getElementById('notice').hidden");
    browser.wait_until("a second was measured", "window.sent.state.directions.up.throughput_1s_bps != null");
    let shown = browser.evaluate(SHOWN);
    check_against_the_stream(&shown);
    check_against_the_agent(&agent, &shown);
    check_isolation(&mut browser);
    agent.stop().unwrap();
}

pub(crate) fn wait_live(browser: &mut Browser) {
    browser.wait_until(
        "the page is live",
        "document.getElementById('condition')?.dataset.kind === 'live' && !!window.sent?.state",
    );
}

/// A figure as the page writes it, in base units and without its uncertainty; none for the dash and for "unknown".
pub(crate) fn figure(text: &str) -> Option<f64> {
    let text = text.strip_prefix("about ").unwrap_or(text);
    let text = text.split(" ± ").next().unwrap_or(text);
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number: f64 = number.replace(',', "").parse().ok()?;
    let factor = match unit {
        "ms" => 1e-3,
        _ if unit.starts_with('k') => 1e3,
        _ if unit.starts_with('M') => 1e6,
        _ => 1.0,
    };
    Some(number * factor)
}

/// Three digits are shown, and whole bytes and milliseconds.
fn check(what: &str, text: &str, sent: &Value) {
    match (figure(text), sent.as_f64()) {
        (None, None) => {}
        (Some(shown), Some(sent)) if (shown - sent).abs() <= (0.006 * sent.abs()).max(0.5) => {}
        _ => panic!("{what}: the page shows {text}, the agent says {sent}"),
    }
}

fn check_against_the_stream(shown: &Value) {
    let (state, tick) = (&shown["state"], &shown["tick"]);
    assert_eq!(shown["verdict"], state["verdict"].as_str().unwrap_or(""), "{shown:#}");
    if let Some(reason) = state.pointer("/evidence/reason") {
        assert_eq!(&shown["reason"], reason);
    }
    for (index, pointer) in
        ["/up/queue_bytes", "/up/queue_ack_bytes", "/down/queue_bytes", "/down/queue_ack_bytes", "/up/rtt_s"]
            .into_iter()
            .enumerate()
    {
        let sent = tick.pointer(pointer).unwrap_or(&Value::Null);
        // A tick has about ten steps: the newest is shown.
        let sent = sent.as_array().map_or(sent, |steps| steps.last().unwrap_or(&Value::Null));
        let text = shown["levels"][index].as_str().unwrap();
        // Seconds are small: half a unit of them would be no check.
        let scale = if pointer.ends_with("rtt_s") { 1e3 } else { 1.0 };
        check(
            pointer,
            &scaled(text, scale),
            &sent.as_f64().map_or(Value::Null, |sent| (sent * scale).into()),
        );
    }
    for (row, pointer) in [
        ("Throughput", "throughput_1s_bps"),
        ("TCP goodput", "goodput_bps"),
        ("In the buffer", "queue/bytes"),
        ("Standing queue", "queue/standing_bytes"),
        ("Outstanding", "in_flight_bytes"),
        ("Retransmitted", "retransmitted_segments"),
        ("Flows with data", "flows"),
    ] {
        for (column, direction) in ["up", "down"].into_iter().enumerate() {
            let sent = state.pointer(&format!("/directions/{direction}/{pointer}")).unwrap_or(&Value::Null);
            check(&format!("{row}, {direction}"), shown["figures"][row][column].as_str().unwrap(), sent);
        }
    }
    for source in state["sources"].as_array().unwrap() {
        assert!(shown["sources"].as_str().unwrap().contains(source["source"].as_str().unwrap()), "{source}");
    }
    for sentence in state["degraded"].as_array().unwrap() {
        assert!(shown["sources"].as_str().unwrap().contains(sentence.as_str().unwrap()), "{sentence}");
    }
    if let Some(commands) = state.pointer("/advice/commands").and_then(Value::as_array) {
        for command in commands {
            assert!(shown["advice"].as_str().unwrap().contains(command.as_str().unwrap()), "{command}");
        }
    }
}

fn scaled(text: &str, scale: f64) -> String {
    figure(text).map_or("–".to_owned(), |value| (value * scale).to_string())
}

/// What does not change from one second to the next, asked for beside the page.
fn check_against_the_agent(agent: &Agent, shown: &Value) {
    let link = agent.json::<Value>("/api/v1/state").unwrap()["links"][0].take();
    let sent = &shown["state"];
    for pointer in
        ["/name", "/wan", "/hooks", "/link", "/directions/up/queue/limit_bytes", "/directions/up/queue/qdisc"]
    {
        assert_eq!(sent.pointer(pointer), link.pointer(pointer), "{pointer}");
    }
    assert_eq!(link.pointer("/link/uplink_rate_bps"), Some(&196_000.into()));
    assert_eq!(link.pointer("/directions/up/queue/limit_bytes"), Some(&30_000.into()));
}

/// The table says what the API says, sorts, and masks.
fn check_flows(browser: &mut Browser) {
    let shown = browser.evaluate(SHOWN);
    let flows = shown["flows"]["flows"].as_array().unwrap();
    let rows = shown["rows"].as_array().unwrap();
    assert_eq!(rows.len(), flows.len());
    for flow in flows {
        let same = |row: &&Value| row[0] == flow["client"] && row[1] == flow["server"];
        let row = rows.iter().find(same).unwrap_or_else(|| panic!("{flow} is not in {rows:?}"));
        let direction = flow["direction"].as_str().unwrap();
        assert_eq!(row[2], direction);
        check("flow", row[3].as_str().unwrap(), &flow[direction]["throughput_bps"]);
        check("flow", row[4].as_str().unwrap(), &flow[direction]["in_flight_bytes"]);
    }
    let click = "document.querySelector('[data-column=server] button').click()";
    let order = |browser: &mut Browser| {
        browser.evaluate(click);
        let sorted = "document.querySelector('[data-column=server]').getAttribute('aria-sort')";
        let servers = browser.evaluate(SHOWN)["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row[1].clone())
            .collect::<Vec<_>>();
        (browser.evaluate(sorted), servers)
    };
    let (ascending, mut first) = order(browser);
    let (descending, second) = order(browser);
    first.reverse();
    assert_eq!((ascending, descending), ("ascending".into(), "descending".into()));
    assert_eq!(first, second);
    browser.evaluate("document.querySelector('[data-column=rate] button').click()");
    browser.evaluate("document.getElementById('mask').click()");
    let masked = browser.evaluate("document.getElementById('flow-rows').textContent");
    for flow in flows {
        let (host, _) = flow["client"].as_str().unwrap().rsplit_once(':').unwrap();
        assert!(!masked.as_str().unwrap().contains(host), "{masked}");
    }
    browser.evaluate("document.getElementById('mask').click()");
}

/// Light, dark and narrow. Nothing may stick out to the side, and the themes have to differ.
fn pictures(browser: &mut Browser) {
    let directory = std::env::var_os("PENDULUM_SCREENSHOTS");
    if directory.is_some() {
        // A full window of the pendulum, for people to look at.
        std::thread::sleep(Duration::from_secs(35));
    }
    let mut grounds = Vec::new();
    for (name, width, height, scale, dark) in
        [("light", 1360, 940, 1.0, false), ("dark", 1360, 940, 1.0, true), ("narrow", 390, 844, 1.5, true)]
    {
        browser.look(width, height, scale, dark);
        std::thread::sleep(Duration::from_millis(500));
        let overhang = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
        assert!(overhang.as_f64().unwrap() <= 0.0, "{name}: the page is {overhang} px wider than the screen");
        grounds.push(browser.evaluate("getComputedStyle(document.body.parentElement).backgroundColor"));
        if let Some(directory) = &directory {
            browser.screenshot(&Path::new(directory).join(format!("page-{name}.png")));
        }
    }
    assert_ne!(grounds[0], grounds[1]);
    browser.look(1360, 940, 1.0, false);
}

/// With `PENDULUM_SCREENSHOTS` a picture for docs/reference/statements.md.
pub(crate) fn picture(browser: &mut Browser, name: &str) {
    if let Some(directory) = std::env::var_os("PENDULUM_SCREENSHOTS") {
        browser.evaluate("scrollTo(0, 0)");
        browser.screenshot(&Path::new(&directory).join(format!("page-{name}.png")));
    }
}

/// Without a connection there are no figures of this moment, and the verdict is one that was.
fn check_nothing_is_said_of_the_present(browser: &mut Browser) {
    for id in ["level-up", "level-up-ack", "level-down", "rate-up", "rate-down", "rtt-up"] {
        assert_eq!(browser.text(id), "–", "{id}");
    }
    assert!(browser.text("verdict-name").starts_with("Last known: "), "{}", browser.text("verdict-name"));
    let title = browser.evaluate("document.title");
    assert!(title.as_str().unwrap().starts_with("No connection"), "{title}");
}

/// Both halves of the central picture have one scale.
fn check_scale(browser: &mut Browser) {
    let label = "document.getElementById('queue-chart').getAttribute('aria-label')";
    browser.wait_until("the picture is described", &format!("{label}.includes('full height')"));
    let words = browser.evaluate(label);
    let heights = words.as_str().unwrap().split_once("full height uplink ").unwrap().1;
    let (up, rest) = heights.split_once(", downlink ").unwrap();
    assert_eq!(Some(up), rest.split(". Now").next(), "{words}");
    // The downlink's limit is not known: there is no per cent of it.
    assert_eq!(browser.evaluate("document.querySelector('#scale option[value=limit]').disabled"), true);
    let period = browser.text("shares-title");
    assert!(period.contains(" over the last "), "{period}");
}

/// The agent remembers what the page begins with.
fn check_memory(agent: &Agent, browser: &mut Browser) {
    let remembered: Value = agent.json("/api/v1/history").unwrap();
    let steps = remembered["steps"].as_array().unwrap();
    let newest = steps.last().unwrap();
    assert!(newest["up"]["queue_bytes"].as_f64().unwrap() > 0.0, "{remembered}");
    assert_eq!(steps[0]["down"]["queue_ack_bytes"], Value::Null, "not known is not 0");
    let requests = browser.reported("Network.requestWillBeSent");
    let asked = |request: &&Value| request["request"]["url"].as_str().unwrap().contains("/api/v1/history");
    assert!(requests.iter().any(asked));
}

/// Nothing was asked of anybody but the agent, and nothing was forbidden or failed in the page.
pub(crate) fn check_isolation(browser: &mut Browser) {
    let violations = browser.evaluate("window.sent.violations");
    assert_eq!(violations, json!([]));
    let requests = browser.reported("Network.requestWillBeSent");
    assert!(requests.len() > 5);
    for request in requests {
        let url = request["request"]["url"].as_str().unwrap();
        assert!(url.starts_with(URL), "{url}");
    }
    let exceptions = browser.reported("Runtime.exceptionThrown");
    assert!(exceptions.is_empty(), "{exceptions:#?}");
    let complaints = browser.reported("Log.entryAdded");
    // That the agent was not there for a while is what the test did.
    let foreign: Vec<_> = complaints
        .iter()
        .filter(|entry| entry["entry"]["level"] == "error" && entry["entry"]["source"] != "network")
        .collect();
    assert!(foreign.is_empty(), "{foreign:#?}");
}
