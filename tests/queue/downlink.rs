//! The provider's buffer, which the gateway only estimates, against the same buffer watched at the provider's router with the
//! queue programs; and a downlink shaped on the gateway by an ifb, which is observed.

use std::time::{Duration, Instant};

use pendulum::bpf::{Passage, PassageReader, QueueInterval, QueuePrograms, RingReader, flags_of};
use pendulum::net::{QdiscTree, ingress_redirect};
use pendulum::run::estimate::{Estimate, KnownLink, LinkEstimate};
use pendulum::run::own_queue::OwnQueue;
use pendulum_lab::LinkSpec;
use pendulum_lab::topology::{LINK_DEVICE, Role, WAN_DEVICE};
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_model::observer::Vantage;
use pendulum_model::segment::{Direction, PerDirection};

use crate::rig::{Rig, ifindex, with_rig};

/// Of the paper's link, bytes per second.
const DOWN_RATE: f64 = 300_000.0;
const UP_RATE: f64 = 24_500.0;

/// The estimate of a gateway in the making, and the truth beside it.
struct Watch {
    link: LinkEstimate,
    own: OwnQueue,
    passages: PassageReader,
    up: RingReader,
    truth: RingReader,
    /// Bucket and mean bytes at the provider: what waits, and all that its qdisc holds.
    known: Vec<(u64, [f64; 2])>,
    /// Kept, because its programs measure as long as it lives.
    _truth_programs: QueuePrograms,
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Watch {
    fn new(rig: &Rig) -> Self {
        let r1 = rig.lab.host(Role::R1);
        let truth_programs = r1
            .inside(|| {
                let mut programs = QueuePrograms::load().expect("the queue programs load again");
                let index = ifindex(LINK_DEVICE);
                let tree = QdiscTree::read(index).expect("netlink answers");
                programs.track(Direction::Down, index, flags_of(&tree)).expect("the device is registered");
                programs
            })
            .expect("inside the provider's router");
        let now = monotonic_ns();
        let mut link = LinkEstimate::new(now, Vantage::OwnQueue);
        // The gateway shapes its uplink.
        let rates = PerDirection { up: None, down: Some(DOWN_RATE) };
        link.tell(&KnownLink { rates, question_rate: None, repeated: 0.0 });
        Self {
            link,
            own: OwnQueue::new(Some(rig.queues.departures())),
            passages: rig.programs.passages(now),
            up: rig.reader(),
            truth: truth_programs.reader(Direction::Down),
            known: Vec::new(),
            _truth_programs: truth_programs,
        }
    }

    fn tick(&mut self) {
        let Self { link, own, passages, up, truth, known, .. } = self;
        up.read(|interval| own.push(&interval));
        own.set_rate(Some(UP_RATE));
        let read_to = passages.read(monotonic_ns(), |passage| {
            let answer = match &passage {
                Passage::Down(arrival) => arrival.answer,
                Passage::Up(_) | Passage::Home(_) => None,
            };
            link.push(&passage, answer.and_then(|answer| own.sojourn_ns(&answer)));
        });
        link.settle(read_to);
        truth.read(|interval: QueueInterval| {
            known.push((interval.number, [waiting(&interval), interval.mean_bytes]));
        });
    }

    fn provider(&self) -> Estimate<'_> {
        self.link.of(Direction::Down).expect("the provider's is never our own")
    }

    /// Estimate and truth, as [`Self::known`], of the buckets that both are known of.
    fn pairs(&self) -> Vec<[f64; 3]> {
        let pair = |(number, [waits, held]): &(u64, [f64; 2])| {
            let known = *number < self.provider().known_to();
            Some([self.provider().sample(*number).filter(|_| known)?.mean_bytes, *waits, *held])
        };
        self.known.iter().filter_map(pair).collect()
    }
}

/// Bytes that wait behind the packet on the link. A token bucket holds that one, too, until its tokens have come, which is
/// until a link of that rate would have sent it; the estimate, as a link's own buffer, counts it as on the link.
fn waiting(interval: &QueueInterval) -> f64 {
    let first = if interval.mean_packets > 1.0 {
        interval.mean_bytes / interval.mean_packets
    } else {
        interval.mean_bytes
    };
    interval.mean_bytes - first
}

/// Correlation, RMS of the difference, means.
fn compare(pairs: &[[f64; 3]]) -> (f64, f64, [f64; 2]) {
    let count = pairs.len() as f64;
    let mean = [0, 1].map(|i| pairs.iter().map(|pair| pair[i]).sum::<f64>() / count);
    let moment =
        |i: usize, j: usize| pairs.iter().map(|p| (p[i] - mean[i]) * (p[j] - mean[j])).sum::<f64>() / count;
    let rms = (pairs.iter().map(|[a, b, _]| (a - b).powi(2)).sum::<f64>() / count).sqrt();
    (moment(0, 1) / (moment(0, 0) * moment(1, 1)).sqrt(), rms, mean)
}

fn transfer(rig: &Rig, direction: Direction, seconds: u64) -> Transfer {
    Transfer::start(&rig.lab, TransferSpec::new(direction, Duration::from_secs(seconds)))
        .expect("a transfer starts")
}

/// A download that fills the provider's buffer, then an upload that fills our own beside it.
#[test]
fn provider_buffer_is_estimated_on_live_traffic() {
    with_rig("provider_buffer_is_estimated_on_live_traffic", LinkSpec::FIG1, |rig| {
        let mut watch = Watch::new(rig);
        let download = transfer(rig, Direction::Down, 9);
        let upload_at = Instant::now() + Duration::from_secs(4);
        while Instant::now() < upload_at {
            std::thread::sleep(Duration::from_millis(100));
            watch.tick();
        }
        let upload = transfer(rig, Direction::Up, 4);
        rig.finish([download, upload], || watch.tick());
        std::thread::sleep(Duration::from_millis(800));
        watch.tick();
        let pairs = watch.pairs();
        let (correlation, rms, mean) = compare(&pairs);
        let held = pairs.iter().map(|[_, _, held]| held).sum::<f64>() / pairs.len() as f64;
        println!(
            "estimate against the provider's own queue: correlation {correlation:.3}, RMS {rms:.0} B, mean {:.0} B (truth \
             {:.0} B, {held:.0} B with the packet on the link), {} buckets of 10 ms, trust {}",
            mean[0],
            mean[1],
            pairs.len(),
            watch.provider().trust().name()
        );
        assert!(pairs.len() > 600, "{} buckets are known", pairs.len());
        assert!(mean[1] > 2_000.0, "the provider's buffer was used: mean {} B", mean[1]);
        // A guest's shaper oversleeps by more than a packet, often.
        assert!(correlation > 0.95, "correlation {correlation}");
        assert!(rms < 1_514.0, "RMS {rms} B");
    });
}

/// SQM's arrangement: what comes in is redirected to an ifb that shapes it. Its queue is the qdisc's own.
#[test]
fn downlink_shaped_by_an_ifb_is_observed() {
    const IFB: &str = "ifb-down";
    with_rig("downlink_shaped_by_an_ifb_is_observed", LinkSpec::FIG1, |rig| {
        let gateway = rig.lab.gateway();
        let wan = rig.ifindex;
        assert_eq!(gateway.inside(|| ingress_redirect(wan)).expect("inside").expect("netlink answers"), None);
        gateway.run("ip", &["link", "add", IFB, "type", "ifb"]).expect("an ifb");
        gateway.run("ip", &["link", "set", IFB, "up"]).expect("set up");
        rig.tc(&format!("qdisc add dev {IFB} root tbf rate 1500kbit burst 2000 limit 30000"))
            .expect("a shaper");
        // With clsact the programs and the filter share the hook; TCX comes first anyway.
        if rig.tc(&format!("qdisc add dev {WAN_DEVICE} clsact")).is_err() {
            println!("clsact is there already");
        }
        rig.tc(&format!(
            "filter add dev {WAN_DEVICE} ingress protocol all prio 60000 u32 match u32 0 0 action mirred egress redirect \
             dev {IFB}"
        ))
        .expect("a redirection");
        let index = gateway.inside(|| ingress_redirect(wan)).expect("inside").expect("netlink answers");
        let ifb = gateway.inside(|| ifindex(IFB)).expect("inside");
        assert_eq!(index, Some(ifb));

        let queues = &mut rig.queues;
        rig.lab
            .gateway()
            .inside(|| queues.track(Direction::Down, ifb, 0))
            .expect("inside")
            .expect("the device is registered");
        let mut reader = rig.queues.reader(Direction::Down);
        let mut download = transfer(rig, Direction::Down, 3);
        let (mut highest, mut compared, mut equal) = (0, 0, 0);
        let end = Instant::now() + Duration::from_secs(40);
        while !download.is_finished().expect("it can be asked") {
            assert!(Instant::now() < end, "the download does not end");
            std::thread::sleep(Duration::from_millis(20));
            reader.read(|interval| highest = highest.max(interval.max_bytes));
            // The level is the qdisc's own, if nothing happened between the two readings.
            let before = rig.queues.state(Direction::Down);
            let tree = rig.lab.gateway().inside(|| QdiscTree::read(ifb)).expect("inside").expect("netlink");
            let after = rig.queues.state(Direction::Down);
            let root = tree.root().expect("a root qdisc");
            if before.last_ns == after.last_ns && after.qdisc != 0 {
                let level = (after.level.bytes, after.level.packets);
                compared += 1;
                equal += usize::from(level == (root.backlog_bytes, root.backlog_packets));
            }
        }
        println!("highest level {highest} B, equal to the qdisc's own {equal} times of {compared}");
        assert!(highest > 15_000, "the highest level is {highest}");
        assert!(compared >= 5 && equal == compared, "equal {equal} times of {compared}");
        let totals = rig.queues.state(Direction::Down).totals;
        assert!(totals.dequeued_packets[0] > 100 && totals.sojourn_packets[0] > 50, "{totals:?}");
    });
}
