//! What the page says in each state in which it could mislead: docs/reference/statements.md.

use std::path::Path;
use std::time::Duration;

use pendulum_lab::agent::Agent;
use pendulum_model::findings::Verdict;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::hidden::{TELLER, link};
use crate::live::{URL, picture};
use crate::{PENDULUM, lab};

/// Pixels of the ground behind means of 10 s, in the left and in the right half of the plot.
const GROUND: &str = r"(() => {
    const canvas = document.querySelector('#queue-chart canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const rgb = parseInt(getComputedStyle(document.documentElement).getPropertyValue('--means').trim().slice(1), 16);
    const halves = [0, 0];
    for (let at = 0; at < data.length; at += 4)
        if ((data[at] << 16 | data[at + 1] << 8 | data[at + 2]) === rgb) halves[Number((at / 4) % canvas.width > canvas.width * 0.6)] += 1;
    return halves;
})()";

/// Each text whose contrast with its ground is below 4.5:1 (WCAG AA), as "text: contrast". Not those of a switch, whose input is on top of it.
const FAINT: &str = r"(() => {
    const parts = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
    const over = ([r, g, b, a = 1], ground) => [r, g, b].map((part, at) => part * a + ground[at] * (1 - a));
    const light = (colour) => colour.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const ground = (element) => {
        const own = parts(getComputedStyle(element).backgroundColor);
        if (own.length < 4) return own;
        return over(own, element.parentElement ? ground(element.parentElement) : [255, 255, 255]);
    };
    const found = [];
    for (const element of document.querySelectorAll('body *')) {
        const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join('');
        if (!text || !element.checkVisibility({ visibilityProperty: true }) || element.closest('svg, option, :disabled')) continue;
        const behind = ground(element);
        const [one, other] = [light(over(parts(getComputedStyle(element).color), behind)), light(behind)].sort((a, b) => b - a);
        const contrast = (one + 0.05) / (other + 0.05);
        if (contrast < 4.5) found.push(`${text}: ${contrast.toFixed(1)}`);
    }
    return found;
})()";

/// What a person reads first.
const READ: &str = r"(() => {
    const text = (id) => document.getElementById(id).textContent;
    return { answer: text('verdict-name'), second: text('second'), cost: text('cost'), action: text('action'), facts: text('facts'),
             figures: text('figures'), levels: [text('level-up'), text('level-down')], rates: [text('rate-up'), text('rate-down')],
             notice: document.getElementById('notice').hidden ? '' : text('notice'),
             arm: new DOMMatrix(getComputedStyle(document.getElementById('swing-arm')).transform).b };
})()";

/// Opens the page on what the test says.
fn open(lab: &pendulum_lab::Lab, told: &Value) -> Browser {
    let mut browser = Browser::start(lab, &format!("window.told = {told};{TELLER}"));
    browser.look(1360, 940, 1.0, false);
    browser.call("Page.navigate", json!({ "url": URL }));
    browser.wait_until("the page is live", "document.getElementById('condition')?.dataset.kind === 'live'");
    browser
}

#[test]
fn means_of_ten_seconds_have_another_ground_than_ticks() {
    let Some((_guard, lab)) = lab("means_of_ten_seconds_have_another_ground_than_ticks") else { return };
    let agent = Agent::start(&lab, Path::new(PENDULUM)).unwrap();
    let half = json!({ "queue_bytes": 20_000.0, "throughput_bps": 8e6, "rtt_s": 0.05 });
    // They end where the ticks begin.
    let steps: Vec<_> = (5..=10)
        .map(|step| json!({ "at_s": step * 10, "lasted_s": 10.0, "up": half, "down": half, "phase_share": null, "verdict": null }))
        .collect();
    let mut browser = open(&lab, &json!({ "link": link(), "steps": steps }));
    let hidden = "document.getElementById('means-key').hidden";
    browser.wait_until("the ground is drawn", &format!("!{hidden} && {GROUND}[0] > 1000"));
    let ticks = "sent.ticks >= 160";
    browser.wait_until("ticks have come for half a window", ticks);
    let halves = browser.evaluate(GROUND);
    assert!(halves[0].as_u64().unwrap() > 1000 && halves[1] == 0, "{halves}");
    picture(&mut browser, "means");
    // Long windows have means only.
    let choose = |seconds: u32| {
        format!(
            "(() => {{ const select = document.getElementById('window'); select.value = '{seconds}'; select.dispatchEvent(new Event('change')); }})()"
        )
    };
    browser.evaluate(&choose(300));
    browser.wait_until("the long window is marked", &format!("!{hidden}"));
    browser.evaluate(&choose(10));
    browser.wait_until("ticks alone have no mark", hidden);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(browser.evaluate(GROUND), json!([0, 0]));
    agent.stop().unwrap();
}

/// Tells the page this, and waits until it has been drawn.
fn tell(browser: &mut Browser, link: &Value) -> Value {
    browser.evaluate(&format!("told.link = {link}; sent.ticks = 0;"));
    browser.wait_until("it was told", "sent.ticks >= 3");
    browser.evaluate(READ)
}

/// A text in both themes.
fn check_contrast(browser: &mut Browser, state: &str) {
    for dark in [true, false] {
        browser.look(1360, 940, 1.0, dark);
        assert_eq!(browser.evaluate(FAINT), json!([]), "{state}, dark: {dark}");
    }
}

fn words(text: &Value) -> usize {
    text.as_str().unwrap().split_whitespace().count()
}

/// A link whose downloads lose seven tenths.
fn locked() -> Value {
    let mut told = link();
    told["verdict"] = "locked_uplink".into();
    told["severity"] = "critical".into();
    told["lost_ratio"] = 0.7.into();
    told["bufferbloat"]["up"] = Value::Null;
    told["link"] =
        json!({ "uplink_rate_bps": 2_000_000, "downlink_rate_bps": 24_000_000, "rate_source": "config" });
    told["evidence"]["reason"] = "the uplink buffer never empties and downloads starve".into();
    told
}

/// Nothing is known yet.
fn started() -> Value {
    let mut told = link();
    for name in ["verdict", "evidence", "phase", "vantage", "severity"] {
        told[name] = Value::Null;
    }
    told["bufferbloat"]["up"] = Value::Null;
    told["standing_delay_s"]["up"] = Value::Null;
    for direction in ["up", "down"] {
        told["directions"][direction]["queue"] = Value::Null;
        told["directions"][direction]["throughput_1s_bps"] = Value::Null;
        told["directions"][direction]["throughput_bps"] = 0.0.into();
    }
    told
}

#[test]
fn each_state_says_what_is_known_of_it() {
    let Some((_guard, lab)) = lab("each_state_says_what_is_known_of_it") else { return };
    let agent = Agent::start(&lab, Path::new(PENDULUM)).unwrap();
    let mut browser = open(&lab, &json!({ "link": started() }));

    let shown = tell(&mut browser, &started());
    assert_eq!(
        (&shown["answer"], &shown["action"], &shown["cost"]),
        (&json!("No verdict yet."), &json!(""), &json!(""))
    );
    assert_eq!((&shown["levels"], &shown["arm"]), (&json!(["unknown", "unknown"]), &json!(0)), "{shown:#}");
    assert!(shown["figures"].as_str().unwrap().contains("Throughput––TCP goodput––"), "{shown:#}");
    check_contrast(&mut browser, "started");
    picture(&mut browser, "started");

    let mut told = link();
    told["directions"]["up"]["queue"]["bytes"] = 28_640.into();
    told["directions"]["up"]["queue"]["uncertainty_bytes"] = 2_550.into();
    told["directions"]["down"] = told["directions"]["up"].clone();
    tell(&mut browser, &told);
    let overhang = "(() => { const card = document.querySelector('.figures'); return card.scrollWidth - card.clientWidth; })()";
    assert_eq!(browser.evaluate(overhang), 0, "figures stay in their card");

    let mut told = link();
    told["verdict"] = "unknown".into();
    let shown = tell(&mut browser, &told);
    assert_eq!(shown["arm"], 0, "no side without a verdict");
    check_contrast(&mut browser, "unknown");

    for (state, reason, action) in [
        ("off", Value::Null, "Shape the link: set mode = \"auto\" in [shape]."),
        ("dry_run", Value::Null, "The shaper only counts: set mode = \"auto\" in [shape]."),
        ("observing", Value::Null, "The shaper compares with and without: wait for its result."),
        ("declined", json!("no gain was found"), "No gain was found."),
        ("refused", json!("sch_cake is missing"), "Sch_cake is missing."),
        ("enforcing", Value::Null, "The shaper is on: check its rate."),
    ] {
        let mut told = locked();
        told["shape"] = json!({ "state": state, "reason": reason });
        let shown = tell(&mut browser, &told);
        assert_eq!(
            (&shown["answer"], &shown["action"]),
            (&json!("Downloads starve behind your uploads."), &json!(action))
        );
        assert_eq!(shown["cost"], "Downloads lose 70 % of their rate");
        let said = shown["facts"].as_str().unwrap().contains(&format!("Shaper{}", state.replace('_', " ")));
        assert_eq!(said, state != "off", "{shown:#}");
        assert!(shown["arm"].as_f64().unwrap() > 0.2, "{shown:#}");
        browser.evaluate("document.querySelector('.why').open = true");
        check_contrast(&mut browser, state);
        if state == "dry_run" {
            picture(&mut browser, "dry-run");
        }
    }
    let mut told = locked();
    told["verdict"] = "balanced".into();
    told["severity"] = "info".into();
    told["lost_ratio"] = 0.1.into();
    told["shape"] = json!({ "state": "enforcing" });
    told["evidence"]["reason"] = "bulk data goes both ways, and neither a lock nor a swing is found".into();
    told["phase"] = "balanced".into();
    told["standing_delay_s"]["up"] = 0.004.into();
    for (name, bytes) in [("bytes", 1_000.0), ("uncertainty_bytes", 500.0), ("standing_bytes", 900.0)] {
        told["directions"]["up"]["queue"][name] = bytes.into();
    }
    assert_eq!(tell(&mut browser, &told)["action"], "Nothing to do.");
    picture(&mut browser, "shaping");

    // It went a day ago, and the page stayed open.
    browser.evaluate("window.now = Date.now; Date.now = () => now() - 86_400e3; told.dead = true");
    browser.wait_until("the page says so", "!document.getElementById('notice').hidden");
    let day = "new Date(now() - 86_400e3).toLocaleDateString('en-GB', { dateStyle: 'medium' })";
    let day = browser.evaluate(&format!("Date.now = now; {day}"));
    let shown = browser.evaluate(READ);
    assert!(shown["notice"].as_str().unwrap().contains(day.as_str().unwrap()), "{day}: {shown:#}");
    assert_eq!((&shown["levels"], &shown["rates"]), (&json!(["–", "–"]), &json!(["–", "–"])));
    check_contrast(&mut browser, "dead");
    picture(&mut browser, "dead");
    agent.stop().unwrap();
}

/// Each verdict, whatever else is found with it.
#[test]
fn the_first_answer_has_at_most_twelve_words() {
    let Some((_guard, lab)) = lab("the_first_answer_has_at_most_twelve_words") else { return };
    let agent = Agent::start(&lab, Path::new(PENDULUM)).unwrap();
    let mut browser = open(&lab, &json!({ "link": link() }));
    let segment = json!({ "base_s": 0.02, "queue_s": 0.31, "uncertainty_s": 0.01, "host": "192.168.1.7" });
    let free = json!({ "base_s": 0.02, "queue_s": 0.0, "uncertainty_s": 0.01 });
    for verdict in Verdict::ALL {
        for lost in [0.3, 0.9] {
            for place in ["unknown", "home", "downlink"] {
                let mut told = locked();
                told["verdict"] = verdict.name().into();
                told["lost_ratio"] = lost.into();
                told["delay"] = json!({ "place": place, "queue_s": 0.31, "segments": {} });
                for name in ["home", "gateway", "uplink", "downlink", "beyond"] {
                    told["delay"]["segments"][name] = if name == place { &segment } else { &free }.clone();
                }
                let shown = tell(&mut browser, &told);
                assert!(
                    (1..=12).contains(&words(&shown["answer"])),
                    "{verdict:?}, {lost}, {place}: {shown:#}"
                );
                let both = shown["answer"].as_str().unwrap().contains("both ways");
                assert!(!both || verdict == Verdict::Balanced, "{verdict:?}: {shown:#}");
            }
        }
    }
    agent.stop().unwrap();
}
