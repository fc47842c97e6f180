//! Buffers out of sight, as most users have them: the real page, with a modem's buffer instead of the gateway's own.

use std::path::Path;
use std::time::Duration;

use pendulum_lab::agent::Agent;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::live::{URL, picture};
use crate::{PENDULUM, lab};

/// Answers in the agent's place with `told.link` and its levels, `told.auto` and `told.steps` if they are there, and not at all if it is
/// `told.dead`; the page's files come from the agent.
pub(crate) const TELLER: &str = r"
window.sent = { violations: [] };
addEventListener('securitypolicyviolation', (event) => window.sent.violations.push(event.violatedDirective));
const real = window.fetch;
const json = (value) => new Response(JSON.stringify(value), { headers: { 'Content-Type': 'application/json' } });
const streamed = () => {
    let at_s = 100;
    const bytes = new TextEncoder();
    const half = (name) => {
        const { queue, throughput_bps } = told.link.directions[name];
        const steps = (figure) => queue && queue[figure] != null ? Array(10).fill(queue[figure]) : null;
        return { queue_bytes: steps('bytes'), queue_uncertainty_bytes: steps('uncertainty_bytes'), queue_ack_bytes: null, source: queue?.source ?? null, throughput_bps, rtt_s: 0.05, auto: told.auto?.[name] ?? null };
    };
    return new ReadableStream({
        async pull(out) {
            await new Promise((done) => setTimeout(done, 100));
            if (told.dead) return out.error(new TypeError('gone'));
            at_s += 0.1;
            const tick = { link: told.link.name, at_s, step_s: 0.01, up: half('up'), down: half('down'),
                           phase: told.link.phase, verdict: told.link.verdict, skipped: 0 };
            const text = `event: state\ndata: ${JSON.stringify(told.link)}\n\nevent: tick\ndata: ${JSON.stringify(tick)}\n\n`;
            out.enqueue(bytes.encode(text));
            window.sent.ticks = (window.sent.ticks ?? 0) + 1;
        },
    });
};
window.fetch = async (input, init) => {
    const path = String(input);
    if (told.dead) throw new TypeError('refused');
    if (told.steps && path.startsWith('/api/v1/history')) return json({ link: told.link.name, step_s: 10, steps: told.steps });
    if (path.startsWith('/api/v1/state')) return json({ version: '1', uptime_s: 1, links: [told.link] });
    if (path.startsWith('/api/v1/events')) return json({ events: [], dropped: 0 });
    if (path.startsWith('/api/v1/flows')) return json({ total: 0, flows: [] });
    if (path.startsWith('/api/v1/stream')) return new Response(streamed(), { headers: { 'Content-Type': 'text/event-stream' } });
    return real(input, init);
};
";

/// What a person reads of the buffers and the verdict.
const SHOWN: &str = r"(() => {
    const text = (id) => document.getElementById(id).textContent;
    const row = (name) => [...document.getElementById('figures').rows].find((row) => row.cells[0].textContent === name);
    const buffer = (name) => document.querySelector(`#buffers [data-direction=${name}] dd`).textContent;
    return {
        verdict: text('verdict-name'), cost: text('cost'), action: text('action'), tone: document.getElementById('verdict').dataset.tone,
        missing: document.getElementById('missing').hidden ? null : text('missing'), bufferbloat: text('bufferbloat'),
        places: [text('up-source'), text('down-source')], levels: [text('level-up'), text('level-down')],
        acks: [text('level-up-ack'), text('level-down-ack')], buffers: [buffer('up'), buffer('down')],
        figures: ['In the buffer', 'Standing queue', 'Dropped'].map((name) => [...row(name).cells].slice(1).map((cell) => cell.firstElementChild.textContent)),
        band: !document.getElementById('band-note').hidden,
    };
})()";

/// A link behind a modem that a QUIC upload fills, with an exact queue on neither side.
pub(crate) fn link() -> Value {
    let direction = |queue: Value| {
        json!({ "throughput_bps": 1_900_000.0, "throughput_1s_bps": 1_900_000.0, "goodput_bps": 0.0, "utilization": null, "in_flight_bytes": 0, "flows": 1,
                "retransmitted_segments": 0, "rtt": null, "ack_burst": null, "queue": queue, "cwnd_bytes": null, "cwnd_source": null })
    };
    let queue = json!({
        "source": "estimate", "trust": "confirmed", "qdisc": null, "bytes": 24_000, "uncertainty_bytes": 2_000.0, "packets": null,
        "ack_bytes": null, "peak_bytes": 25_000, "standing_bytes": 22_000.0, "limit_bytes": null, "drops": {},
        "composition": { "tcp_data": 0.125, "ack": 0.003, "udp": 0.872, "other": 0.0 },
        "top_port": { "name": "UDP port 443", "protocol": 17, "port": 443, "share": 0.87 },
    });
    json!({
        "name": "dsl", "wan": "wan0", "device": "up", "attached": true, "hooks": null, "trouble": null, "vantage": "before_uplink_buffer",
        "link": { "uplink_rate_bps": null, "downlink_rate_bps": null, "rate_source": null },
        "directions": { "up": direction(queue), "down": direction(Value::Null) },
        "losses": {}, "programs": [], "phase": "uplink_bound", "phase_share": null, "verdict": "one_way", "verdict_for_s": 20.0, "lost_ratio": null, "severity": "warning",
        "evidence": { "rule": "r", "reason": "bulk data goes up only", "figures": [], "since_s": 1.0, "missing": [] },
        "bufferbloat": { "up": { "since_s": 1.0, "delay_s": 0.35, "cause": { "kind": "udp", "share": 0.87 }, "help": "shape the uplink" },
                         "down": null },
        "standing_delay_s": { "up": 0.35, "down": null }, "sources": [], "degraded": [],
    })
}

/// Tells the page this, and waits until it has been drawn.
fn tell(browser: &mut Browser, link: &Value) -> Value {
    browser.evaluate(&format!("told.link = {link}; sent.ticks = 0;"));
    browser.wait_until("it was told", "sent.ticks >= 3");
    browser.evaluate(SHOWN)
}

#[test]
fn a_buffer_out_of_sight_is_shown_with_its_band_and_how_it_is_known() {
    let test = "a_buffer_out_of_sight_is_shown_with_its_band_and_how_it_is_known";
    let Some((_guard, lab)) = lab(test) else { return };
    let agent = Agent::start(&lab, Path::new(PENDULUM)).unwrap();
    let mut browser = Browser::start(&lab, &format!("window.told = {{ link: {} }};{TELLER}", link()));
    browser.look(1360, 940, 1.0, false);
    browser.call("Page.navigate", json!({ "url": URL }));
    browser.wait_until("the page is live", "document.getElementById('condition')?.dataset.kind === 'live'");

    let shown = tell(&mut browser, &link());
    assert_eq!(shown["levels"], json!(["about 24 kB ± 2 kB", "unknown"]), "{shown:#}");
    assert_eq!(shown["acks"], json!(["unknown", "unknown"]));
    assert_eq!(shown["places"], json!(["Uplink buffer, in the modem", "Downlink buffer, not seen"]));
    let figures = json!([["about 24 kB ± 2 kB", "unknown"], ["about 22 kB", "unknown"], ["–", "–"]]);
    assert_eq!((&shown["figures"], &shown["band"]), (&figures, &json!(true)));
    let [up, down] = [0, 1].map(|index| shown["buffers"][index].as_str().unwrap());
    for part in
        ["estimated from delays: the buffer is in the modem", "87 % UDP port 443, 13 % TCP data", "350 ms"]
    {
        assert!(up.contains(part), "{part} is not in {up}");
    }
    assert!(!up.contains("ACKs"), "what is below half a per cent is not named: {up}");
    assert!(down.contains("unknown") && !down.contains("0 B"), "{down}");
    let bloat = shown["bufferbloat"].as_str().unwrap();
    for part in ["uplink", "350 ms", "87 % of the traffic in the buffer is UDP", "Shape the uplink."] {
        assert!(bloat.contains(part), "{part} is not in {bloat}");
    }
    // One-way traffic is well; a buffer that delays everything is not.
    assert_eq!(shown["verdict"], "All outgoing traffic waits in the uplink’s buffer.");
    assert_eq!((&shown["cost"], &shown["action"]), (&json!("+350 ms of delay"), &json!("Shape the uplink.")));
    assert_eq!((&shown["tone"], &shown["missing"]), (&json!("warn"), &Value::Null));
    for (name, width, dark) in [("modem", 1360, false), ("modem-narrow", 390, true)] {
        browser.look(width, 940, 1.0, dark);
        std::thread::sleep(Duration::from_millis(300));
        let overhang = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
        assert!(overhang.as_f64().unwrap() <= 0.0, "{name}: {overhang} px wider than the screen");
    }

    where_the_delay_is(&mut browser);
    undecided_and_exact(&mut browser);
    assert_eq!(browser.evaluate("sent.violations"), json!([]));
    let exceptions = browser.reported("Runtime.exceptionThrown");
    assert!(exceptions.is_empty(), "{exceptions:#?}");
    agent.stop().unwrap();
}

/// The answer begins with the place; a segment without evidence is unknown, not zero.
fn where_the_delay_is(browser: &mut Browser) {
    let mut told = link();
    told["bufferbloat"]["up"] = Value::Null;
    told["severity"] = "info".into();
    tell(browser, &told);
    assert_eq!(browser.evaluate("document.getElementById('where').hidden"), json!(true));
    let known = |base: f64, queue: f64| json!({ "base_s": base, "queue_s": queue, "uncertainty_s": 0.01 });
    let unknown = json!({ "base_s": null, "queue_s": null, "uncertainty_s": null, "unknown": "one_end" });
    told["delay"] = json!({ "place": "home", "queue_s": 0.31, "segments": { "home": known(0.01, 0.31), "gateway": known(0.0, 0.0),
        "uplink": known(0.0, 0.0), "downlink": known(0.0, 0.0), "beyond": known(0.02, 0.0) } });
    tell(browser, &told);
    assert_eq!(browser.text("verdict-name"), "The line is fine. 310 ms wait in your home.");
    told["delay"]["segments"]["home"]["host"] = "192.168.1.7".into();
    tell(browser, &told);
    assert!(browser.text("verdict-name").ends_with("wait in your home, at 192.168.1.7."));
    told["delay"]["segments"]["home"].as_object_mut().unwrap().remove("host");
    assert_eq!(browser.text("second"), "One direction is busy; the other has nothing to lose.");
    assert_eq!(browser.text("action"), "See “Where the delay is”.", "it is not nothing");
    // Of a line of which nothing is known nothing is said.
    for segment in ["uplink", "downlink"] {
        told["delay"]["segments"][segment] = unknown.clone();
    }
    tell(browser, &told);
    assert_eq!(browser.text("verdict-name"), "310 ms wait in your home.");
    let list = browser.text("where-list");
    for part in [
        "Home: LAN, Wi-Fi, hosts320 ms, of that 310 ms ± 10 ms in queues",
        "Uplink: modemunknown: one far host only",
    ] {
        assert!(list.contains(part), "{part} is not in {list}");
    }
    std::thread::sleep(Duration::from_secs(4));
    browser.look(1360, 1300, 1.0, false);
    picture(browser, "where");
    told["delay"]["place"] = "unknown".into();
    tell(browser, &told);
    assert_eq!(browser.text("second"), "");
}

/// The verdict that nothing is known, and a queue that is read.
fn undecided_and_exact(browser: &mut Browser) {
    let mut told = link();
    told["verdict"] = "unknown".into();
    told["evidence"]["missing"] = json!(["base_round_trip", "uplink_rate"]);
    told["bufferbloat"]["up"] = Value::Null;
    told["severity"] = "info".into();
    told["directions"]["up"]["queue"]["uncertainty_bytes"] = Value::Null;
    told["directions"]["up"]["queue"]["trust"] = "never_empty".into();
    told["directions"]["up"]["queue"]["composition"] = Value::Null;
    let shown = tell(browser, &told);
    assert_eq!(
        (&shown["verdict"], &shown["tone"]),
        (&json!("Unknown: evidence is missing."), &json!("none"))
    );
    let action = "Configure uplink-rate and downlink-rate for this link.";
    assert_eq!(
        (&shown["cost"], &shown["action"]),
        (&json!(""), &json!(action)),
        "also for traffic in one direction"
    );
    assert_eq!(shown["missing"], "Missing evidence: the round-trip time without queues; the uplink’s rate.");
    assert_eq!((&shown["levels"][0], &shown["band"]), (&json!("about 24 kB"), &json!(false)));
    assert_eq!(shown["bufferbloat"], "");
    browser.look(1360, 940, 1.0, false);
    picture(browser, "unknown");
    let up = shown["buffers"][0].as_str().unwrap();
    for part in ["its uncertainty is unknown", "never seen empty", "The traffic in it is unknown"] {
        assert!(up.contains(part), "{part} is not in {up}");
    }

    let mut told = link();
    told["vantage"] = "own_queue".into();
    told["directions"]["up"]["queue"]["source"] = "tracepoint".into();
    told["directions"]["up"]["queue"]["uncertainty_bytes"] = 0.0.into();
    told["directions"]["up"]["queue"]["top_port"]["share"] = 0.5.into();
    let shown = tell(browser, &told);
    assert_eq!((&shown["levels"][0], &shown["places"][0]), (&json!("24 kB"), &json!("Uplink buffer, here")));
    let up = shown["buffers"][0].as_str().unwrap();
    for part in ["read from the gateway’s queue", "87 % UDP (UDP port 443: at least 50 %)"] {
        assert!(up.contains(part), "{part} is not in {up}");
    }

    // A kernel that shows the queue by netlink only: the source says so, with what it costs.
    let lack = "the uplink queue is read by netlink ten times a second; peaks in between are missed";
    told["directions"]["up"]["queue"]["source"] = "netlink".into();
    told["degraded"] = json!([lack]);
    told["sources"] = json!([{ "what": "queue", "direction": "up", "source": "netlink" }]);
    let shown = tell(browser, &told);
    assert_eq!(shown["acks"][0], "unknown");
    let sources = browser.text("sources");
    assert!(
        sources.contains(lack) && sources.contains("netlink") && !sources.contains("best there is"),
        "{sources}"
    );
    browser.evaluate("document.getElementById('sources').scrollIntoView({ block: 'end' })");
    if let Some(directory) = std::env::var_os("PENDULUM_SCREENSHOTS") {
        browser.screenshot(&Path::new(&directory).join("page-stepped-down.png"));
    }
}
