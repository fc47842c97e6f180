//! The rate that a shaper finds by itself: there where one is looked for, on one time axis with the wait behind it and the decisions.

use std::path::Path;
use std::time::Duration;

use pendulum_lab::agent::Agent;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::hidden::{TELLER, link};
use crate::live::URL;
use crate::{PENDULUM, lab};

/// What a person reads of it, and how many pixels of each decision's colour there are in both strips.
const SHOWN: &str = r"(() => {
    const text = (id) => document.getElementById(id).textContent;
    const pixels = (name) => {
        const canvas = document.querySelector(`#found-${name}-decisions canvas`);
        if (canvas.width === 0) return {};
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const style = getComputedStyle(document.documentElement);
        const counts = {};
        for (const decision of ['raise', 'lower', 'drain', 'outage', 'hold']) {
            const rgb = parseInt(style.getPropertyValue(`--decision-${decision}`).trim().slice(1), 16);
            counts[decision] = 0;
            for (let at = 0; at < data.length; at += 4)
                if ((data[at] << 16 | data[at + 1] << 8 | data[at + 2]) === rgb) counts[decision] += 1;
        }
        return counts;
    };
    const both = (of) => ({ up: of('up'), down: of('down') });
    const edges = (id) => { const box = document.querySelector(`#${id} .u-over`).getBoundingClientRect(); return [box.left, box.right]; };
    return {
        there: !document.getElementById('found').hidden, halves: both((name) => !document.getElementById(`found-${name}`).hidden),
        rate: both((name) => text(`found-${name}-rate`)), wait: both((name) => text(`found-${name}-wait`)),
        decision: both((name) => text(`found-${name}-decision`)), why: both((name) => text(`found-${name}-why`)),
        pixels: both(pixels), axes: [edges('found-up-rate-chart'), edges('found-up-wait-chart')],
    };
})()";

fn line(decision: &str, reason: &str, wait: Value) -> Value {
    json!({ "rate_bps": 9_870_000, "rate_source": "auto",
            "auto": { "decision": decision, "reason": reason, "link_rate_bps": 9_970_000.0, "waits_behind_s": wait,
                      "minimum_bps": 300_000, "maximum_bps": null } })
}

fn shaped(state: &str, up: Value, down: Value) -> Value {
    let mut link = link();
    link["shape"] = json!({ "state": state, "uplink": up, "downlink": down });
    link
}

/// Tells the page this, and waits until some frames of it have been drawn.
fn tell(browser: &mut Browser, link: &Value, auto: &Value, steps: &Value) -> Value {
    browser.evaluate(&format!(
        "Object.assign(told, {{ link: {link}, auto: {auto}, steps: {steps} }}); sent.ticks = 0;"
    ));
    browser.wait_until("it was told", "sent.ticks >= 8");
    // Every second frame is drawn.
    browser.evaluate("(async () => { for (let frame = 0; frame < 6; frame += 1) await new Promise(requestAnimationFrame); })()");
    browser.evaluate(SHOWN)
}

#[test]
fn a_rate_that_is_found_is_shown_with_its_reasons_and_no_other() {
    let Some((_guard, lab)) = lab("a_rate_that_is_found_is_shown_with_its_reasons_and_no_other") else {
        return;
    };
    let agent = Agent::start(&lab, Path::new(PENDULUM)).unwrap();
    let mut browser = Browser::start(&lab, &format!("window.told = {{ link: {} }};{TELLER}", link()));
    browser.look(1360, 940, 1.0, false);
    browser.call("Page.navigate", json!({ "url": URL }));
    browser.wait_until("the page is live", "document.getElementById('condition')?.dataset.kind === 'live'");

    // Not shaped; shaped at a configured rate: nothing is shown.
    let fixed = json!({ "rate_bps": 9_000_000, "rate_source": "config", "auto": null });
    for link in [link(), shaped("enforcing", fixed.clone(), fixed.clone())] {
        assert_eq!(tell(&mut browser, &link, &Value::Null, &Value::Null)["there"], false);
    }

    let found = |decision: &str, wait: Value| json!({ "up": { "rate_bps": 9_870_000, "waits_behind_s": wait, "decision": decision }, "down": null });
    let lowered = shaped("enforcing", line("lower", "packets wait behind the shaper", json!(0.0173)), fixed);
    let shown = tell(&mut browser, &lowered, &found("lower", json!(0.0173)), &Value::Null);
    assert_eq!((&shown["there"], &shown["halves"]), (&json!(true), &json!({ "up": true, "down": false })));
    assert_eq!(
        (&shown["rate"]["up"], &shown["wait"]["up"], &shown["decision"]["up"]),
        (&json!("9.87 Mbit/s"), &json!("17.3 ms"), &json!("lowered"))
    );
    assert_eq!(
        shown["why"]["up"],
        "Packets wait behind the shaper. The link carries 9.97 Mbit/s as measured; configured: at least 300 kbit/s."
    );
    assert!(shown["pixels"]["up"]["lower"].as_u64().unwrap() > 0, "{shown:#}");
    assert_eq!((&shown["pixels"]["up"]["raise"], &shown["pixels"]["up"]["drain"]), (&json!(0), &json!(0)));
    assert_eq!(shown["axes"][0], shown["axes"][1], "one time axis");

    // Nobody answers: what is not known is not 0.
    let mut silent = lowered.clone();
    silent["shape"]["uplink"] = line("hold", "no host shows the queue behind the shaper", Value::Null);
    silent["shape"]["uplink"]["auto"]["link_rate_bps"] = Value::Null;
    let shown = tell(&mut browser, &silent, &found("hold", Value::Null), &Value::Null);
    assert_eq!((&shown["wait"]["up"], &shown["decision"]["up"]), (&json!("unknown"), &json!("held")));
    assert!(shown["why"]["up"].as_str().unwrap().contains("The link’s rate is unknown"), "{shown:#}");
    // A turn of the comparison without shaping: no rate is in force.
    let mut observing = lowered.clone();
    observing["shape"]["state"] = "observing".into();
    let shown = tell(&mut browser, &observing, &Value::Null, &Value::Null);
    assert_eq!((&shown["rate"]["up"], &shown["decision"]["up"]), (&json!("not shaped"), &json!("unknown")));
    assert!(shown["why"]["up"].as_str().unwrap().contains("the link is not shaped"), "{shown:#}");

    remembered(&mut browser, &lowered, &found("raise", json!(0.0)));
    pictures(&mut browser, &lowered);
    // The agent goes: nothing is said of the present.
    browser.evaluate("told.dead = true");
    browser.wait_until("the page says so", "!document.getElementById('notice').hidden");
    let shown = browser.evaluate(SHOWN);
    for part in ["rate", "wait", "decision"] {
        assert_eq!(shown[part]["up"], "–", "{part}");
    }
    assert_eq!(browser.evaluate("sent.violations"), json!([]));
    let exceptions = browser.reported("Runtime.exceptionThrown");
    assert!(exceptions.is_empty(), "{exceptions:#?}");
    agent.stop().unwrap();
}

/// Long windows have what the agent remembers: each decision with its share of a step.
fn remembered(browser: &mut Browser, link: &Value, auto: &Value) {
    let half = json!({ "queue_bytes": null, "queue_peak_bytes": null, "queue_ack_bytes": null, "throughput_bps": 8e6, "rtt_s": 0.05,
                       "auto": { "rate_bps": 9e6, "waits_behind_s": 0.01, "waits_behind_peak_s": 0.2, "decision_share": { "drain": 0.5, "hold": 0.5 } } });
    let mut other = half.clone();
    other["auto"] = Value::Null;
    // Before the page's ticks, which begin at 100 s.
    let steps: Vec<_> = (5..=9)
        .map(|step| json!({ "at_s": step * 10, "lasted_s": 10.0, "up": half, "down": other, "phase_share": null, "verdict": null }))
        .collect();
    let long = "const select = document.getElementById('window'); select.value = '300'; select.dispatchEvent(new Event('change'));";
    browser.evaluate(&format!("told.steps = {}; (() => {{ {long} }})()", json!(steps)));
    let shown = tell(browser, link, auto, &json!(steps));
    let pixels = &shown["pixels"]["up"];
    assert!(pixels["drain"].as_u64().unwrap() > 0 && pixels["hold"].as_u64().unwrap() > 0, "{shown:#}");
    assert_eq!(pixels["raise"], 0, "ticks are not in a long window");
    browser.evaluate(&format!("(() => {{ {} }})()", long.replace("300", "30")));
}

/// Both directions, wide and narrow; with `PENDULUM_SCREENSHOTS`, a step down of the link to look at, made up.
fn pictures(browser: &mut Browser, link: &Value) {
    let mut both = link.clone();
    both["shape"]["downlink"] = line("hold", "nothing says that it is wrong", json!(0.002));
    both["shape"]["downlink"]["rate_bps"] = 47_500_000.into();
    both["shape"]["downlink"]["auto"]["link_rate_bps"] = 50e6.into();
    let hold = |rate: f64, wait: f64, decision: &str| json!({ "rate_bps": rate, "waits_behind_s": wait, "decision": decision });
    let steady = hold(47.5e6, 0.002, "hold");
    let story: Vec<_> = (0..300)
        .map(|tick| match tick {
            120..123 => hold(5e6, 0.03 * f64::from(tick - 119), "lower"),
            123..128 => hold(0.6e6, 0.1 - 0.02 * f64::from(tick - 123), "drain"),
            128..200 => hold(4.95e6, 0.003, "hold"),
            200.. if tick % 12 == 0 => hold(4.95e6 + 2e4 * f64::from(tick - 200), 0.002, "raise"),
            200.. => hold(4.95e6 + 2e4 * f64::from(tick / 12 * 12 - 200), 0.002, "hold"),
            _ => hold(9.87e6, 0.002, "hold"),
        })
        .collect();
    let directory = std::env::var_os("PENDULUM_SCREENSHOTS");
    let told = if directory.is_some() {
        let last = story.last().unwrap();
        tell(browser, &both, &json!({ "up": last, "down": steady }), &Value::Null);
        for (index, moment) in story.iter().enumerate() {
            let mut now = both.clone();
            let decision = moment["decision"].as_str().unwrap();
            let reason = match decision {
                "hold" => "nothing says that it is wrong",
                "raise" => "packets wait here and nowhere else",
                _ => "packets wait behind the shaper",
            };
            now["shape"]["uplink"] = line(decision, reason, moment["waits_behind_s"].clone());
            now["shape"]["uplink"]["auto"]["link_rate_bps"] = if index < 120 { 9.97e6 } else { 5e6 }.into();
            now["directions"]["up"]["throughput_bps"] = (moment["rate_bps"].as_f64().unwrap() * 0.97).into();
            now["directions"]["down"]["throughput_bps"] = 46.1e6.into();
            let auto = json!({ "up": moment, "down": steady });
            browser.evaluate(&format!("Object.assign(told, {{ link: {now}, auto: {auto} }})"));
            std::thread::sleep(Duration::from_millis(95));
        }
        last.clone()
    } else {
        story[0].clone()
    };
    for (name, width, height, dark) in [("auto", 1360, 470, false), ("auto-narrow", 390, 940, true)] {
        browser.look(width, height, 1.0, dark);
        if directory.is_none() {
            tell(browser, &both, &json!({ "up": told, "down": steady }), &Value::Null);
        }
        std::thread::sleep(Duration::from_millis(300));
        let overhang = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
        assert!(overhang.as_f64().unwrap() <= 0.0, "{name}: {overhang} px wider than the screen");
        if let Some(directory) = &directory {
            browser.evaluate("document.getElementById('found').scrollIntoView()");
            browser.screenshot(&Path::new(directory).join(format!("page-{name}.png")));
        }
    }
    browser.look(1360, 940, 1.0, false);
}
