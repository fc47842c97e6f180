//! The page before a modem's buffer on real traffic, beside what the agent says and what the kernel holds.

use std::path::Path;
use std::time::Duration;

use pendulum_lab::LinkSpec;
use pendulum_lab::agent::{Agent, Rates};
use pendulum_lab::topology::BufferPlace;
use pendulum_lab::traffic::{Transfer, TransferSpec, UdpFlow, UdpSpec};
use pendulum_lab::truth::QueueReading;
use pendulum_model::segment::Direction;

use crate::browser::Browser;
use crate::live::{URL, WITNESS, check_isolation, figure, wait_live};
use crate::{PENDULUM, lab_of};

const MODEM: LinkSpec = LinkSpec { uplink_buffer_at: BufferPlace::Modem, ..LinkSpec::FIG1 };
const TRAFFIC: Duration = Duration::from_secs(600);

/// What a person reads of the uplink's buffer, and what the page was sent of it.
const SHOWN: &str = r"window.sent.shown(() => {
    const text = (id) => document.getElementById(id).textContent;
    return {
        tick: window.sent.tick, state: window.sent.state, level: text('level-up'), place: text('up-source'),
        buffer: document.querySelector('#buffers [data-direction=up] dd').textContent, bufferbloat: text('bufferbloat'),
        band: !document.getElementById('band-note').hidden,
    };
})";

#[test]
fn a_modem_s_buffer_is_shown_with_its_band_and_who_fills_it() {
    let Some((_guard, lab)) = lab_of("a_modem_s_buffer_is_shown_with_its_band_and_who_fills_it", MODEM)
    else {
        return;
    };
    let agent = Agent::start_with(&lab, Path::new(PENDULUM), Rates::Told, &[]).unwrap();
    let mut browser = Browser::start(&lab, WITNESS);
    browser.look(1360, 940, 1.0, false);
    browser.call("Page.navigate", serde_json::json!({ "url": URL }));
    wait_live(&mut browser);
    let _download = Transfer::start(&lab, TransferSpec::new(Direction::Down, TRAFFIC)).unwrap();
    let _datagrams =
        UdpFlow::start(&lab, UdpSpec::quic(Direction::Up, lab.spec().uplink.rate, TRAFFIC)).unwrap();
    browser.wait_until(
        "the lock is shown",
        "document.getElementById('verdict').dataset.verdict === 'locked_uplink'",
    );
    browser.wait_until("bufferbloat is shown", "document.getElementById('bufferbloat').textContent !== ''");
    browser.wait_until(
        "a band is shown",
        "document.getElementById('level-up').textContent.includes(' ± ') && !document.getElementById('band-note').hidden",
    );

    let shown = browser.evaluate(SHOWN);
    assert_eq!(shown["place"], "Uplink buffer, in the modem", "{shown:#}");
    let sent = |name: &str| {
        let steps = shown["tick"]["up"][name].as_array().unwrap_or_else(|| panic!("{name}: {shown:#}"));
        steps.last().unwrap().as_f64().unwrap()
    };
    let (level, band) = shown["level"].as_str().unwrap().split_once(" ± ").unwrap();
    for (text, name) in [(level, "queue_bytes"), (band, "queue_uncertainty_bytes")] {
        let (shown, sent) = (figure(text).unwrap(), sent(name));
        assert!((shown - sent).abs() <= (0.006 * sent).max(0.5), "{name}: shown {text}, sent {sent}");
    }
    assert!(sent("queue_uncertainty_bytes") > 0.0, "it is an estimate");
    let buffer = shown["buffer"].as_str().unwrap();
    for part in ["estimated from delays: the buffer is in the modem", "UDP port 443"] {
        assert!(buffer.contains(part), "{part} is not in {buffer}");
    }
    let bloat = shown["bufferbloat"].as_str().unwrap();
    assert!(bloat.contains("of the traffic in the buffer is UDP"), "{bloat}");
    let (host, device) = lab.queue(Direction::Up);
    let kernel = QueueReading::take(&host, device).unwrap().backlog_bytes;
    assert!(kernel > 10_000, "the modem really holds {kernel} B");

    if let Some(directory) = std::env::var_os("PENDULUM_SCREENSHOTS") {
        // A full window of the pendulum, for people to look at.
        std::thread::sleep(Duration::from_secs(32));
        browser.screenshot(&Path::new(&directory).join("page-modem.png"));
    }
    check_isolation(&mut browser);
    agent.stop().unwrap();
}
