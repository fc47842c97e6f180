//! The same traffic for a while, over a modem's buffer: the verdict is that of the gateway's own buffer, and stays.
//!
//! `PENDULUM_STEADY_SECONDS` says how long where the traffic itself stays as it is; ten minutes is the long form. A download by CUBIC, or beside
//! datagrams, grows within minutes to what a standing queue of 1.2 s takes: then it does not starve any more, and the lock is over.

use std::time::{Duration, Instant};

use pendulum_lab::LinkSpec;
use pendulum_lab::delay::Delays;
use pendulum_lab::topology::BufferPlace;
use pendulum_model::segment::Direction;

use crate::modem::MODEM;
use crate::rig::with_rig_of;

/// What runs beside a download.
#[derive(Clone, Copy, Debug)]
enum Upload {
    Tcp(&'static str),
    Datagrams,
}

/// A case: link, upload, whether the rates are configured, the verdict.
type Case = (LinkSpec, Upload, bool, &'static str);

/// For so long each of them stays as it is.
const SHORT: Duration = Duration::from_secs(10);

/// How long the verdict has to stay.
fn length() -> Duration {
    let seconds = std::env::var("PENDULUM_STEADY_SECONDS").ok();
    seconds.map_or(SHORT, |seconds| Duration::from_secs(seconds.parse().unwrap()))
}

/// The link that swings (000 Fig. 5): both ways as the paper's downlink, and unequal delays.
const SYMMETRIC: LinkSpec = LinkSpec {
    uplink: LinkSpec::FIG1.downlink,
    uplink_buffer_at: BufferPlace::Modem,
    delays: Delays {
        propagation: Duration::ZERO,
        d1_access: Duration::from_millis(1),
        u1_access: Duration::from_millis(5),
    },
    ..LinkSpec::FIG1
};

fn check(test: &str, (link, upload, told, verdict): Case, length: Duration) {
    with_rig_of(test, link, told, |rig| {
        let congestion_control = match upload {
            Upload::Tcp(name) => name,
            Upload::Datagrams => "reno",
        };
        let download = rig.transfer_by(Direction::Down, congestion_control);
        let (transfer, datagrams) = match upload {
            Upload::Tcp(name) => (Some(rig.transfer_by(Direction::Up, name)), None),
            Upload::Datagrams => (None, Some(rig.datagrams_up())),
        };
        let begun = Instant::now();
        rig.wait_for(verdict, |link| link["verdict"] == verdict);
        let found = begun.elapsed();
        let before = rig.events().len();
        std::thread::sleep(length);
        // Both far ends wait in the modem, and for nothing else.
        let delay = &rig.link()["delay"];
        assert!(["uplink", "downlink", "unknown"].contains(&delay["place"].as_str().unwrap()), "{delay:#}");
        assert!(delay["beyond_bloat"].is_null() && delay["home_bloat"].is_null(), "{delay:#}");
        let changes: Vec<_> =
            rig.events().into_iter().skip(before).filter(|event| event["event"] == "verdict").collect();
        drop((download, transfer, datagrams));
        println!(
            "{upload:?}, told {told}: {verdict} after {:.1} s, {} changes in {:?}",
            found.as_secs_f64(),
            changes.len(),
            length
        );
        assert!(changes.is_empty(), "{changes:#?}");
    });
}

#[test]
fn an_upload_locks_the_modem_s_buffer_for_good() {
    check(
        "an_upload_locks_the_modem_s_buffer_for_good",
        (MODEM, Upload::Tcp("reno"), false, "locked_uplink"),
        length(),
    );
}

#[test]
fn an_upload_by_cubic_locks_the_modem_s_buffer() {
    check(
        "an_upload_by_cubic_locks_the_modem_s_buffer",
        (MODEM, Upload::Tcp("cubic"), true, "locked_uplink"),
        SHORT,
    );
}

#[test]
fn an_upload_by_bbr_locks_the_modem_s_buffer_for_good() {
    check(
        "an_upload_by_bbr_locks_the_modem_s_buffer_for_good",
        (MODEM, Upload::Tcp("bbr"), false, "locked_uplink"),
        length(),
    );
}

#[test]
fn datagrams_lock_the_modem_s_buffer() {
    check("datagrams_lock_the_modem_s_buffer", (MODEM, Upload::Datagrams, false, "locked_uplink"), SHORT);
}

#[test]
fn over_a_modem_s_buffer_the_pendulum_swings_for_good() {
    check(
        "over_a_modem_s_buffer_the_pendulum_swings_for_good",
        (SYMMETRIC, Upload::Tcp("reno"), false, "swinging"),
        length(),
    );
}
