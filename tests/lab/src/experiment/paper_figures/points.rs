//! The points of the papers' figures: what the paper says of them, Eq. 11, the simulation, Linux.

use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::ratio::{Setting, paper};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::simulate::{
    CongestionControl, Flow, FlowLoad, HOST_JITTER_S, PAYLOAD_BYTES, Run, SimulatedLink, ratio_range,
    simulate,
};

use crate::shaper::Shaper;

/// Access delays of both papers: U1 is 5 ms from the link, D1 1 ms.
const ACCESS_S: PerDirection<f64> = PerDirection { up: 0.005, down: 0.001 };
/// What an end takes for a frame, seconds.
const HOST_S: f64 = 5e-5;
/// Share of a run left out at its beginning.
const SETTLING_SHARE: f64 = 0.2;

/// Rates of 000 §4 and of 001 §3.1, bit/s.
const RATES_000: PerDirection<f64> = PerDirection { up: 196e3, down: 2.4e6 };
const RATES_001: PerDirection<f64> = PerDirection { up: 192e3, down: 2e6 };

/// Buffers in bytes of 000 Fig. 10 and 001 Fig. 6 and 7.
pub(super) const DOWNLINK_BYTES: [u64; 3] = [22_500, 37_500, 75_000];
pub(super) const UPLINK_BYTES: [u64; 4] = [6_000, 9_000, 15_000, 30_000];
/// Slots of the downlink buffer (000 §4.1).
const DOWNLINK_SLOTS: u64 = 50;
/// TCP buffers of 001 Fig. 6.
pub(super) const TCP_BUFFERS: [u64; 4] = [16_384, 32_768, 65_536, 131_072];
/// What the senders of a curve are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sender {
    pub(super) name: &'static str,
    control: CongestionControl,
    /// As under `fq`, or where sockets begin with BBR.
    paced: bool,
}

/// That of the papers.
pub(super) const RENO: Sender = Sender { name: "reno", control: CongestionControl::Reno, paced: false };
pub(super) const SENDERS: [Sender; 3] = [
    RENO,
    Sender { name: "reno, paced", control: CongestionControl::Reno, paced: true },
    Sender { name: "CUBIC", control: CongestionControl::Cubic, paced: false },
];

/// The figures, as the points name them.
pub(super) const FIG_10: &str = "000 Fig. 10";
pub(super) const FIG_11: &str = "000 Fig. 11";
pub(super) const FIG_12: &str = "000 Fig. 12";
pub(super) const FIG_6_OF_001: &str = "001 Fig. 6";
pub(super) const FIG_7_OF_001: &str = "001 Fig. 7";
pub(super) const FIG_10_OF_001: &str = "001 Fig. 10";

/// One point.
#[derive(Clone, Debug)]
pub(super) struct PaperPoint {
    pub(super) figure: &'static str,
    /// bit/s.
    pub(super) rate: PerDirection<f64>,
    pub(super) buffer: PerDirection<BufferSize>,
    /// `T_p`, one way.
    pub(super) propagation_ms: u64,
    /// `B_TCP`, bytes; `None`: more than the window wants.
    pub(super) tcp_buffer: Option<u64>,
    pub(super) uploads: u32,
    pub(super) delayed_acks: bool,
    pub(super) sender: Sender,
}

/// What the simulation says.
pub(super) struct Simulated {
    pub(super) goodput: PerDirection<f64>,
    /// `None` if the upload starves.
    pub(super) ratio: Option<f64>,
    /// Smallest and largest of the runs; `None` if the upload starves in one.
    pub(super) spread: Option<[f64; 2]>,
}

/// All points, figure by figure.
pub(super) fn all() -> Vec<PaperPoint> {
    let of_000 = PaperPoint {
        figure: FIG_10,
        rate: RATES_000,
        buffer: PerDirection::from_fn(|_| BufferSize::Bytes(0)),
        propagation_ms: 20,
        tcp_buffer: None,
        uploads: 1,
        delayed_acks: true,
        sender: RENO,
    };
    let of_001 = PaperPoint { figure: FIG_6_OF_001, rate: RATES_001, ..of_000.clone() };
    let mut points = Vec::new();
    for propagation_ms in [20, 100] {
        for down in DOWNLINK_BYTES {
            for sender in SENDERS {
                let point = PaperPoint { propagation_ms, sender, ..of_000.clone() };
                points.extend(UPLINK_BYTES.map(|up| point.with_buffers(BufferSize::Bytes, down, up)));
            }
        }
    }
    let in_packets = |point: &PaperPoint| -> Vec<PaperPoint> {
        (1..=10).map(|step| point.with_buffers(BufferSize::Packets, DOWNLINK_SLOTS, 5 * step)).collect()
    };
    for (delayed_acks, sender) in acks_and_senders() {
        let point = PaperPoint { figure: FIG_11, delayed_acks, sender, ..of_000.clone() };
        points.extend(in_packets(&PaperPoint { tcp_buffer: Some(256 * 1024), ..point }));
    }
    for sender in SENDERS {
        // Ethernet between the routers: no propagation to speak of.
        let point = PaperPoint { figure: FIG_12, propagation_ms: 0, sender, ..of_000.clone() };
        points.extend(in_packets(&point));
    }
    for (figure, uploads) in [(FIG_6_OF_001, 1), (FIG_7_OF_001, 10)] {
        for tcp_buffer in TCP_BUFFERS.map(Some) {
            for propagation_ms in [20, 100] {
                for down in DOWNLINK_BYTES {
                    let point = PaperPoint { figure, uploads, tcp_buffer, propagation_ms, ..of_001.clone() };
                    points.extend(UPLINK_BYTES.map(|up| point.with_buffers(BufferSize::Bytes, down, up)));
                }
            }
        }
    }
    for (delayed_acks, sender) in acks_and_senders() {
        let point = PaperPoint { figure: FIG_10_OF_001, delayed_acks, sender, ..of_001.clone() };
        points.extend(in_packets(&PaperPoint { tcp_buffer: Some(64 * 1024), ..point }));
    }
    points
}

fn acks_and_senders() -> impl Iterator<Item = (bool, Sender)> {
    [true, false].into_iter().flat_map(|delayed| SENDERS.map(|sender| (delayed, sender)))
}

impl PaperPoint {
    fn with_buffers(&self, unit: fn(u64) -> BufferSize, down: u64, up: u64) -> Self {
        Self { buffer: PerDirection { up: unit(up), down: unit(down) }, ..self.clone() }
    }

    pub(super) fn cc(&self) -> &'static str {
        self.sender.control.name()
    }

    pub(super) fn is_paced(&self) -> bool {
        self.sender.paced
    }

    pub(super) fn name(&self) -> String {
        let acks = if self.delayed_acks { "" } else { ", an ACK for each segment" };
        let window = self.tcp_buffer.map_or_else(String::new, |bytes| format!(", B_TCP {} kB", bytes / 1024));
        let uploads = if self.uploads > 1 { format!(", {} uploads", self.uploads) } else { String::new() };
        format!(
            "{} up, {} down, {} ms, {}{window}{uploads}{acks}",
            self.buffer.up, self.buffer.down, self.propagation_ms, self.sender.name
        )
    }

    /// `k`.
    pub(super) fn k(&self) -> f64 {
        self.rate.down / self.rate.up
    }

    /// Bytes or packets.
    pub(super) fn uplink(&self) -> f64 {
        size(self.buffer.up)
    }

    /// r as the paper's text has it; of the other points it only has a mark in a picture.
    pub(super) fn stated(&self) -> Option<f64> {
        let up = self.uplink();
        match self.figure {
            // 000 §4.1: room "for 25 slots with delayed ACKs or 50 otherwise"; there r is about k.
            FIG_11 if up == if self.delayed_acks { 25.0 } else { 50.0 } => Some(self.k()),
            // 001 §3.1: "approximately 10 … for TCP buffers of at least 64 kB and link buffers of 9000 B (uplink side) and 75000 B".
            FIG_6_OF_001 if up == 9_000.0 && size(self.buffer.down) == 75_000.0 => {
                self.tcp_buffer.is_some_and(|bytes| bytes >= 65_536).then_some(10.0)
            }
            _ => None,
        }
        .filter(|_| self.sender == RENO)
    }

    /// 000 Eq. 6 to 11, whatever the congestion control; for buffers in bytes only. Several uploads count as one (000 §4).
    pub(super) fn equation(&self) -> Option<f64> {
        let (BufferSize::Bytes(up), BufferSize::Bytes(down)) = (self.buffer.up, self.buffer.down) else {
            return None;
        };
        let capacity = PerDirection::from_fn(|x| self.rate[x] / 8.0);
        let buffer = PerDirection { up: up as f64, down: down as f64 };
        // Of two access wires the shorter is what both connections have in common.
        let propagation = self.propagation_ms as f64 / 1e3 + ACCESS_S.down.min(ACCESS_S.up);
        let setting = Setting::new(capacity, buffer, propagation).ok()?.with_delayed_acks(self.delayed_acks);
        let setting = setting.with_tcp_buffer(self.tcp_buffer.map_or(f64::INFINITY, |bytes| bytes as f64));
        Some(paper::predict(&setting).ok()?.ratio)
    }

    /// Runs of so many seconds.
    pub(super) fn simulate(&self, seconds: f64, seeds: u64) -> Simulated {
        let run = Run {
            from_s: SETTLING_SHARE * seconds,
            until_s: seconds,
            start_spread_s: 0.2,
            jitter_s: HOST_JITTER_S,
        };
        let link = self.link();
        let outcomes: Vec<_> = (0..seeds).map(|seed| simulate(&link, &run, seed)).collect();
        let mean = |x: Direction| {
            outcomes.iter().map(|outcome| outcome.goodput_bps[x]).sum::<f64>() / outcomes.len().max(1) as f64
        };
        let goodput = PerDirection::from_fn(mean);
        let spread = ratio_range(&outcomes);
        Simulated { ratio: (goodput.up > 0.0).then(|| goodput.down / goodput.up), goodput, spread }
    }

    /// Of a token bucket of the lab.
    fn burst_bytes(&self, direction: Direction) -> f64 {
        let rate = Rate::from_bits_per_second(self.rate[direction] as u64);
        let shaper = rate.map(|rate| Shaper { rate, buffer: self.buffer[direction] });
        shaper.map_or(0.0, |shaper| shaper.burst_bytes() as f64)
    }

    fn link(&self) -> SimulatedLink {
        let propagation = self.propagation_ms as f64 / 1e3;
        let flow = |direction| {
            let access = 2.0 * ACCESS_S[direction];
            // The propagation lies behind each buffer; the internet's end, D1 or U1, has the access delay.
            let (receiver, sender) = if direction == Direction::Down { (0.0, access) } else { (access, 0.0) };
            Flow {
                direction,
                congestion_control: self.sender.control,
                paced: self.sender.paced,
                delayed_acks: self.delayed_acks,
                receiver_round_trip_s: propagation + receiver + HOST_S,
                sender_round_trip_s: propagation + sender + HOST_S,
                start_s: 0.0,
                stop_s: f64::INFINITY,
                load: FlowLoad::Bulk,
                most_segments: self
                    .tcp_buffer
                    .map(|bytes| u32::try_from(bytes / u64::from(PAYLOAD_BYTES)).unwrap_or(u32::MAX)),
                home_host: 0,
            }
        };
        SimulatedLink {
            rate: PerDirection::from_fn(|x| self.rate[x] / 8.0),
            buffer: self.buffer,
            cake: false,
            burst: PerDirection::from_fn(|x| self.burst_bytes(x)),
            flows: std::iter::once(flow(Direction::Down))
                .chain(std::iter::repeat_n(flow(Direction::Up), self.uploads as usize))
                .collect(),
        }
    }
}

fn size(size: BufferSize) -> f64 {
    match size {
        BufferSize::Bytes(count) | BufferSize::Packets(count) => count as f64,
    }
}

/// A run of a link of the papers on Linux.
#[derive(Clone)]
pub(super) struct PaperRun {
    rate: PerDirection<f64>,
    propagation_ms: u64,
    buffer: PerDirection<BufferSize>,
    tcp_buffer: Option<u64>,
    uploads: u32,
    delayed_acks: bool,
    cc: String,
    paced: bool,
    ratio: f64,
}

/// What `tests/data/paper-grids` has; a row that is no such row is left out, which a test notices.
pub(super) fn linux() -> Vec<PaperRun> {
    let text = include_str!("../../../../data/paper-grids/linux.csv");
    text.lines().skip(1).filter_map(measured).collect()
}

fn measured(line: &str) -> Option<PaperRun> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[
        _,
        down_bps,
        up_bps,
        propagation,
        down,
        up,
        window,
        uploads,
        delayed,
        cc,
        paced,
        _,
        _,
        _,
        _,
        ratio,
        _,
    ] = cells.as_slice()
    else {
        return None;
    };
    let buffer = |text: &str| text.trim_end_matches('b').parse().ok();
    Some(PaperRun {
        rate: PerDirection { up: up_bps.parse().ok()?, down: down_bps.parse().ok()? },
        propagation_ms: propagation.parse().ok()?,
        buffer: PerDirection { up: buffer(up)?, down: buffer(down)? },
        tcp_buffer: if window.is_empty() { None } else { Some(window.parse().ok()?) },
        uploads: uploads.parse().ok()?,
        delayed_acks: delayed == "1",
        cc: cc.to_owned(),
        paced: paced == "1",
        ratio: ratio.parse().ok().filter(|ratio: &f64| *ratio > 0.0)?,
    })
}

/// The mean of Linux' runs of a point, and the smallest and largest.
pub(super) fn of(linux: &[PaperRun], point: &PaperPoint) -> Option<[f64; 3]> {
    // The 256 kB of 000 Fig. 11 are more than both buffers hold: no bound.
    let tcp_buffer = point.tcp_buffer.filter(|_| point.figure != FIG_11);
    let same = |measured: &&PaperRun| {
        measured.rate == point.rate
            && measured.buffer == point.buffer
            && measured.propagation_ms == point.propagation_ms
            && measured.tcp_buffer == tcp_buffer
            && measured.uploads == point.uploads
            && measured.delayed_acks == point.delayed_acks
            && measured.cc == point.cc()
            && measured.paced == point.is_paced()
    };
    let ratios: Vec<f64> = linux.iter().filter(same).map(|measured| measured.ratio).collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let ends = [ratios.iter().copied().fold(mean, f64::min), ratios.iter().copied().fold(mean, f64::max)];
    (!ratios.is_empty()).then_some([mean, ends[0], ends[1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_linux_is_read_and_belongs_to_a_point() {
        let rows = include_str!("../../../../data/paper-grids/linux.csv").lines().count() - 1;
        let linux = linux();
        assert_eq!(linux.len(), rows);
        let points = all();
        for row in &linux {
            // Ten uploads on the link of 000 are in no figure ("not shown", 000 §4).
            let drawn = row.uploads == 1 || row.tcp_buffer.is_some();
            let fits = points.iter().filter(|point| of(std::slice::from_ref(row), point).is_some()).count();
            assert_eq!(fits, usize::from(drawn), "{} {} {}", row.buffer.up, row.buffer.down, row.cc);
        }
    }

    #[test]
    fn each_figure_has_the_points_of_its_paper() {
        let points = all();
        let count = |figure| points.iter().filter(|point| point.figure == figure).count();
        let counts = [FIG_10, FIG_11, FIG_12, FIG_6_OF_001, FIG_7_OF_001, FIG_10_OF_001].map(count);
        assert_eq!(counts, [2 * 3 * 4 * 3, 10 * 6, 10 * 3, 4 * 2 * 12, 4 * 2 * 12, 10 * 6]);
        let stated =
            |figure| points.iter().filter(|point| point.figure == figure && point.stated().is_some()).count();
        assert_eq!([FIG_11, FIG_6_OF_001].map(stated), [2, 2 * 2]);
        // 001's own example: "approximately 10".
        let of_text = points.iter().find(|point| point.figure == FIG_6_OF_001 && point.stated().is_some());
        let equation = of_text.and_then(PaperPoint::equation).expect("a ratio");
        assert!((7.0..13.0).contains(&equation), "{equation}");
    }

    #[test]
    fn a_small_uplink_buffer_is_better_for_the_download_and_a_starved_upload_has_no_ratio() {
        let points = all();
        let ratio = |up: f64| {
            let mut of_fig_10 = points.iter().filter(|point| point.figure == FIG_10 && point.uplink() == up);
            of_fig_10.next().and_then(|point| point.simulate(60.0, 1).ratio).expect("a ratio")
        };
        assert!(ratio(6_000.0) > 1.5 * ratio(30_000.0));
    }
}
