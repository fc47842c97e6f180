//! A queue that stands in the modem although the gateway shapes: that is said, with the rate that would do; and not where shaping works.

use std::time::Duration;

use pendulum_lab::LinkSpec;
use pendulum_lab::topology::BufferPlace;
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_model::segment::Direction;

use crate::rig::{Rig, stop, until, with_cake};

const LINK: LinkSpec = LinkSpec { uplink_buffer_at: BufferPlace::Modem, ..LinkSpec::FIG1 };

/// 1.2 times what the line carries. `rate-percent` takes one per cent off.
const TOO_HIGH: &str = "235kbit";

/// Bits per second that the line carries.
const CARRIES: f64 = 196e3;

const TRAFFIC: Duration = Duration::from_secs(70);

fn upload(rig: &Rig) -> Transfer {
    Transfer::start(&rig.lab, TransferSpec::new(Direction::Up, TRAFFIC)).expect("a transfer starts")
}

fn shape(rig: &Rig) -> serde_json::Value {
    rig.state()["links"][0]["shape"].clone()
}

/// The rate that the reason names, bit/s.
fn advised(reason: &str) -> Option<f64> {
    let rest = reason.split_once("it carried ")?.1;
    let mut words = rest.split([' ', ':']);
    let number: f64 = words.next()?.parse().ok()?;
    match words.next()? {
        "kbit/s" => Some(number * 1e3),
        "Mbit/s" => Some(number * 1e6),
        _ => None,
    }
}

#[test]
fn a_rate_above_what_the_line_carries_is_told_with_the_rate_that_would_do() {
    with_cake("a_rate_above_what_the_line_carries_is_told_with_the_rate_that_would_do", LINK, |rig| {
        rig.told_uplink = Some(TOO_HIGH);
        let agent = rig.agent("mode = \"enforce\"");
        until("enforcing", || shape(rig)["state"] == "enforcing");
        let transfer = upload(rig);
        until("ineffective", || shape(rig)["state"] == "ineffective");
        let told = shape(rig);
        println!("{told}");
        let reason = told["reason"].as_str().expect("a reason");
        let rate = advised(reason).unwrap_or_else(|| panic!("no rate: {reason}"));
        assert!((0.85..1.05).contains(&(rate / CARRIES)), "{rate}: {reason}");
        drop(transfer);
        stop(agent);
    });
}

#[test]
fn a_right_rate_is_not_ineffective() {
    with_cake("a_right_rate_is_not_ineffective", LINK, |rig| {
        let agent = rig.agent("mode = \"enforce\"");
        until("enforcing", || shape(rig)["state"] == "enforcing");
        let transfer = upload(rig);
        for _ in 0..12 {
            std::thread::sleep(Duration::from_secs(1));
            let told = shape(rig);
            assert_eq!(told["state"], "enforcing", "{told}");
        }
        drop(transfer);
        stop(agent);
    });
}
