//! The acceptance table of the packet measurement: `docs/design/measurement.md` in examples.
//!
//! Two programs are held against it: the BPF programs through TEST_RUN, and `agent/src/replay/`. Each case starts
//! with empty maps and counters.
//!
//! A [`Case::figures`] entry names one figure after the last frame and its value:
//!
//! * `up.FIELD`, `down.FIELD` — a field of `struct pendulum_half` of the flow between the `craft::endpoint`s (their IPv4
//!   addresses; IPv6 if there is no such flow; zero if there is none), or
//!   `up.flag.NAME` (0 or 1), `NAME` as in `enum pendulum_half_flag` in lower case;
//! * `counters.up.FIELD`, `counters.down.FIELD` — of `struct pendulum_counters`; arrays as `segments.CLASS`,
//!   `bytes.CLASS`, `marked_segments.MARK`, `bursts.N`, `rtt.N`;
//! * `stats.nursed`, `stats.promoted`, `stats.restarted`;
//! * `table.flows`, `table.nursery` — entries in each table; `outstanding.up`, `outstanding.down` — of that flow.
//!
//! A test that cannot produce some of these must fail on them, not skip them. The kernel's TEST_RUN refuses frames
//! shorter than 14 bytes: only such frames may be left out there.

use super::craft::{CraftedFrame, LinkLayer, Tcp};

#[path = "cases/classes.rs"]
mod classes;
#[path = "cases/flows.rs"]
mod flows;
#[path = "cases/headers.rs"]
mod headers;
#[path = "cases/options.rs"]
mod options;
#[path = "cases/round_trips.rs"]
mod round_trips;

/// What one frame must be counted as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expect {
    /// Name of the class.
    pub(crate) class: &'static str,
    /// Reasons for which a measurement is lost, in lower case without `LOST_`.
    pub(crate) lost: &'static [&'static str],
}

/// Frames in a row, and what becomes of them.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// What is shown.
    pub(crate) name: &'static str,
    /// Link layer of the device.
    pub(crate) link_layer: LinkLayer,
    /// In the order of time.
    pub(crate) frames: Vec<CraftedFrame>,
    /// One for each frame.
    pub(crate) expect: Vec<Expect>,
    /// Figures after the last frame.
    pub(crate) figures: Vec<(&'static str, u64)>,
}

/// One frame of a case, with what it must be counted as.
#[derive(Clone, Debug)]
struct Step {
    packet: Tcp,
    expect: Expect,
}

impl Tcp {
    fn is(self, class: &'static str) -> Step {
        Step { packet: self, expect: Expect { class, lost: &[] } }
    }
}

impl Step {
    fn losing(mut self, reasons: &'static [&'static str]) -> Self {
        self.expect.lost = reasons;
        self
    }
}

fn on(link_layer: LinkLayer, name: &'static str, steps: impl IntoIterator<Item = Step>) -> Case {
    let steps: Vec<Step> = steps.into_iter().collect();
    Case {
        name,
        link_layer,
        frames: steps.iter().map(|step| step.packet.build(link_layer)).collect(),
        expect: steps.into_iter().map(|step| step.expect).collect(),
        figures: Vec::new(),
    }
}

fn case(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Case {
    on(LinkLayer::Ethernet, name, steps)
}

fn raw(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Case {
    on(LinkLayer::RawIp, name, steps)
}

impl Case {
    fn leaves(mut self, figures: &[(&'static str, u64)]) -> Self {
        self.figures.extend_from_slice(figures);
        self
    }
}

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    [headers::cases(), options::cases(), classes::cases(), flows::cases(), round_trips::cases()].concat()
}
