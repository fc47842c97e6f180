//! What the page says in each state in which it could mislead: docs/reference/statements.md.

use std::path::Path;
use std::time::Duration;

use pendulum_lab::agent::Agent;
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
