//! Real TCP through a gateway that withholds and rewrites ACKs, on a link that loses, delays and reorders: every byte
//! arrives, no checksum is wrong, and no more retransmission timers run out than without the agent on the same link.
//!
//! `PENDULUM_LONG=1` transfers ten times as much.

use pendulum_lab::LinkSpec;
use pendulum_lab::shaper::Shaper;
use pendulum_lab::topology::{IpVersion, Role};
use pendulum_model::rate::BufferSize;

use crate::rig::{Rig, skipped, stop, value, with_cake};
use crate::stream::{Flows, Tally};

/// Rates and buffers, down and up.
pub(crate) fn link_of(rates: [&str; 2], buffers: [u64; 2]) -> LinkSpec {
    let [downlink, uplink] = [0, 1]
        .map(|x| Shaper { rate: rates[x].parse().expect("a rate"), buffer: BufferSize::Bytes(buffers[x]) });
    LinkSpec { downlink, uplink, ..LinkSpec::FIG1 }
}

/// The ACKs of a download at full rate take half of this uplink.
pub(crate) fn link() -> LinkSpec {
    link_of(["2400kbit", "100kbit"], [60_000, 15_000])
}

pub(crate) const ENFORCE: &str = "mode = \"enforce\"\nack-filter = \"static\"\ndelta = 1";
/// As it is by default.
const DELAYED: &str = "mode = \"enforce\"";
const METHODS: [&str; 2] = [ENFORCE, DELAYED];
/// The same queue without the filter.
const CAKE_ALONE: &str = "mode = \"enforce\"\nack-filter = \"off\"";

/// How the endpoints' TCP is set, and what is transferred.
struct Case {
    name: &'static str,
    sysctls: &'static [(&'static str, &'static str)],
    flows: Vec<Flows>,
    /// What the filter may do with it.
    expects: Expects,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Expects {
    /// ACKs are merged, in all such cases together.
    Merging,
    /// The young ones are spared, and the uplink has room.
    Anything,
    /// Some ACKs carry ECE, and pass for it.
    Marks,
    /// Each ACK has options of its own.
    Nothing,
}

const SACK: &str = "net.ipv4.tcp_sack";
const TIMESTAMPS: &str = "net.ipv4.tcp_timestamps";
const ECN: &str = "net.ipv4.tcp_ecn";
/// A SYN that is sent again asks for ECN no more (RFC 3168, 6.1.1.1).
const ECN_FALLBACK: &str = "net.ipv4.tcp_ecn_fallback";

/// Unless a case says otherwise.
const USUAL: [(&str, &str); 4] = [(SACK, "1"), (TIMESTAMPS, "1"), (ECN, "0"), (ECN_FALLBACK, "1")];

fn long() -> usize {
    if std::env::var_os("PENDULUM_LONG").is_some_and(|value| value == "1") { 10 } else { 1 }
}

/// A download, and an upload beside it.
fn both(ip: IpVersion) -> Vec<Flows> {
    vec![Flows::download(ip, 300_000 * long()), Flows::upload(ip, 15_000 * long())]
}

/// What was counted while a case ran.
#[derive(Debug)]
struct Seen {
    tally: Tally,
    merged: f64,
    rewritten: f64,
    flags: f64,
    options: f64,
}

fn run(rig: &Rig, case: &Case, shaped: bool) -> Seen {
    for role in Role::ALL.into_iter().filter(|role| role.is_endpoint()) {
        for (name, value) in USUAL.iter().chain(case.sysctls) {
            rig.lab.host(role).set_sysctl(name, value).expect("the endpoint's own setting");
        }
    }
    let marks = case.expects == Expects::Marks;
    assert!(!marks || netem(rig, Role::D1, "eth0", MARKS));
    let before = (Tally::read(&rig.lab), fates(rig, shaped));
    std::thread::scope(|scope| {
        let running: Vec<_> =
            case.flows.iter().map(|flows| (flows, scope.spawn(|| flows.run(&rig.lab)))).collect();
        for (flows, thread) in running {
            let result = thread.join().expect("its thread");
            assert_eq!(result, Ok(()), "{}, {flows:?}, shaped: {shaped}", case.name);
        }
    });
    if shaped {
        // The agent reads the counters once a second.
        std::thread::sleep(std::time::Duration::from_millis(1_200));
    }
    let after = (Tally::read(&rig.lab), fates(rig, shaped));
    assert!(!marks || netem(rig, Role::D1, "eth0", LOSSES));
    let [merged, rewritten, flags, options] = std::array::from_fn(|i| after.1[i] - before.1[i]);
    let seen = Seen { tally: after.0.since(before.0), merged, rewritten, flags, options };
    println!(
        "{:.1} s {}, {}: {seen:?}",
        rig.began.elapsed().as_secs_f64(),
        case.name,
        if shaped { "shaped" } else { "as it is" }
    );
    seen
}

fn fates(rig: &Rig, shaped: bool) -> [f64; 4] {
    if !shaped {
        return [0.0; 4];
    }
    let metrics = rig.metrics();
    [["held", "redundant"], ["rewritten", "newest"], ["passed", "flags"], ["passed", "options"]].map(
        |[action, reason]| {
            let labels = [format!("action=\"{action}\""), format!("reason=\"{reason}\"")];
            value(&metrics, "pendulum_ack_filter_acks_total", &[&labels[0], &labels[1]])
        },
    )
}

/// All cases without the agent, then all with each setting of it.
fn compare(rig: &Rig, settings: &[&str], cases: &[Case]) {
    let plain: Vec<Seen> = cases.iter().map(|case| run(rig, case, false)).collect();
    settings.iter().for_each(|shape| compare_with(rig, &plain, shape, cases));
}

/// All cases as seen before, then all with the agent.
fn compare_with(rig: &Rig, plain: &[Seen], shape: &str, cases: &[Case]) {
    let agent = rig.agent(shape);
    let shaped: Vec<Seen> = cases.iter().map(|case| run(rig, case, true)).collect();
    stop(agent);
    for (case, seen) in cases.iter().zip(&shaped) {
        check(case, seen);
    }
    // How often ACKs meet in the queue is chance; that they do in some of these transfers is not.
    if cases.iter().any(|case| case.expects == Expects::Merging) {
        let merged: f64 = shaped.iter().map(|seen| seen.merged).sum();
        let rewritten: f64 = shaped.iter().map(|seen| seen.rewritten).sum();
        assert!(merged > 10.0 && rewritten > 0.0, "{merged} merged, {rewritten} rewritten");
    }
    let sum = |seen: &[Seen], what: fn(&Tally) -> u64| seen.iter().map(|seen| what(&seen.tally)).sum::<u64>();
    assert_eq!(sum(plain, |t| t.checksum_errors) + sum(&shaped, |t| t.checksum_errors), 0, "wrong checksums");
    let [without, with] = [plain, &shaped].map(|seen| sum(seen, |t| t.timeouts) as f64);
    // Both are counts of rare events (Poisson): three standard deviations of their difference, and three.
    // Two hundred connections in a second wait for nearly as long as the timer of a SYN runs: a few of them more or less are chance.
    let crowd = if cases.iter().any(|case| case.expects == Expects::Anything) { 12.0 } else { 0.0 };
    let allowed = without + 3.0 * (without + with).sqrt() + 3.0 + crowd;
    assert!(with <= allowed, "{with} retransmission timeouts, {without} in what is compared with");
    println!(
        "retransmission timeouts: {with}, and {without} in what is compared with ({allowed:.1} allowed)"
    );
}

fn check(case: &Case, seen: &Seen) {
    let name = case.name;
    match case.expects {
        Expects::Merging | Expects::Anything => {}
        Expects::Marks => {
            assert!(seen.tally.marked > 0, "{name}: no packet was marked: {seen:?}");
            assert!(seen.flags > 0.0, "{name}: {seen:?}");
        }
        Expects::Nothing => {
            assert!(seen.tally.mptcp > 0, "{name}: this was no MPTCP: {seen:?}");
            assert!(seen.options > 0.0 && seen.merged == 0.0, "{name}: {seen:?}");
        }
    }
}

/// Loss, delay and reordering of data and of ACKs, before the gateway and behind it. False: no netem here.
fn impair(rig: &Rig) -> bool {
    // Marks in place of losses where the packet allows that.
    netem(rig, Role::D1, "eth0", LOSSES)
        && netem(rig, Role::U2, "eth0", LOSSES)
        // ACKs on their way into the filter, and out of it.
        && netem(rig, Role::D2, "eth0", "limit 1000 delay 5ms 2ms loss 0.5% reorder 3% 50%")
        && netem(rig, Role::R1, "d1", "limit 1000 delay 5ms loss 0.5% reorder 3% 50%")
}

const LOSSES: &str = "limit 1000 delay 10ms loss 0.7% ecn reorder 2% 50%";
const MARKS: &str = "limit 1000 delay 10ms loss 10% ecn reorder 2% 50%";

fn netem(rig: &Rig, role: Role, device: &str, what: &str) -> bool {
    let command = format!("qdisc replace dev {device} root netem {what}");
    rig.lab.host(role).run("tc", &command.split(' ').collect::<Vec<_>>()).is_ok()
}

#[test]
fn every_byte_arrives_through_loss_and_reordering() {
    const TEST: &str = "every_byte_arrives_through_loss_and_reordering";
    with_cake(TEST, link(), |rig| {
        if !impair(rig) {
            return skipped(TEST, "this kernel has no netem");
        }
        let case = |name, ip, sysctls| Case { name, sysctls, flows: both(ip), expects: Expects::Merging };
        let cases = [
            case("IPv4", IpVersion::V4, &[] as &[_]),
            case("IPv6", IpVersion::V6, &[]),
            case("IPv4 without SACK and timestamps", IpVersion::V4, &[(SACK, "0"), (TIMESTAMPS, "0")]),
            case("IPv4 without timestamps", IpVersion::V4, &[(TIMESTAMPS, "0")]),
            Case {
                expects: Expects::Marks,
                ..case("IPv4 with ECN", IpVersion::V4, &[(ECN, "1"), (ECN_FALLBACK, "0")])
            },
        ];
        compare(rig, &METHODS, &cases);
    });
}

/// On every kernel: the link's own buffers overflow.
#[test]
fn every_byte_arrives_on_the_bare_link() {
    with_cake("every_byte_arrives_on_the_bare_link", link(), |rig| {
        let case = |name, ip, sysctls| Case { name, sysctls, flows: both(ip), expects: Expects::Merging };
        compare(
            rig,
            &METHODS,
            &[
                case("IPv4", IpVersion::V4, &[] as &[_]),
                case("IPv6 without SACK and timestamps", IpVersion::V6, &[(SACK, "0"), (TIMESTAMPS, "0")]),
            ],
        );
    });
}

/// Two hundred connections too short to be filtered, and long ones among them, on an uplink that takes seconds for their
/// requests. The filter costs them nothing beside cake alone. (A plain buffer serves one after the other, and most of them within the timer of a
/// SYN; cake serves all at once.)
#[test]
fn two_hundred_short_connections() {
    let slow = link_of(["5mbit", "300kbit"], [200_000, 40_000]);
    with_cake("two_hundred_short_connections", slow, |rig| {
        let short = Flows { connections: 200, ..Flows::download(IpVersion::V4, 3_000) };
        let lasting = Flows { connections: 2, ..Flows::download(IpVersion::V6, 300_000 * long()) };
        let flows = vec![short, lasting];
        let cases =
            [Case { name: "200 short ones, 2 long ones", sysctls: &[], flows, expects: Expects::Anything }];
        let alone = rig.agent(CAKE_ALONE);
        let plain: Vec<Seen> = cases.iter().map(|case| run(rig, case, false)).collect();
        stop(alone);
        METHODS.iter().for_each(|shape| compare_with(rig, &plain, shape, &cases));
    });
}

/// Each of its ACKs carries a data sequence number of its own: none may be withheld.
#[test]
fn mptcp_is_not_touched() {
    const TEST: &str = "mptcp_is_not_touched";
    with_cake(TEST, link(), |rig| {
        for role in Role::ALL.into_iter().filter(|role| role.is_endpoint()) {
            if rig.lab.host(role).set_sysctl("net.mptcp.enabled", "1").is_err() {
                return skipped(TEST, "this kernel has no MPTCP");
            }
        }
        let case = |name, ip| {
            let flows = vec![Flows { mptcp: true, ..Flows::download(ip, 150_000 * long()) }];
            Case { name, sysctls: &[], flows, expects: Expects::Nothing }
        };
        compare(rig, &[ENFORCE], &[case("MPTCP, IPv4", IpVersion::V4), case("MPTCP, IPv6", IpVersion::V6)]);
    });
}
