//! What happens to a gateway while it shapes, under load: its agent is killed, its line goes down, its rate changes, it
//! translates addresses. Every byte arrives all the same, and nothing is left at the end.

use std::time::Duration;

use pendulum_lab::netns::Host;
use pendulum_lab::process::Process;
use pendulum_lab::topology::{IpVersion, Role, WAN_DEVICE};
use pendulum_lab::{Lab, LinkSpec};

use crate::rig::{Rig, skipped, stop, until, value, with_cake};
use crate::stream::{Flows, Tally};
use crate::transfers::{ENFORCE, link, link_of};

/// A download and an upload, and `action` while they run. ACKs meet, and are merged, while the upload lasts beyond the download's slow start.
fn under_load(rig: &Rig, ip: IpVersion, bytes: [usize; 2], action: impl FnOnce()) {
    let lab: &Lab = &rig.lab;
    std::thread::scope(|scope| {
        let flows = [Flows::upload(ip, bytes[0]), Flows::download(ip, bytes[1])];
        let running = flows.map(|flows| scope.spawn(move || flows.run(lab)));
        action();
        for thread in running {
            assert_eq!(thread.join().expect("its thread"), Ok(()));
        }
    });
    assert_eq!(Tally::read(lab).checksum_errors, 0, "wrong checksums");
}

fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

fn shell(host: &Host, command: &str) -> Result<String, String> {
    host.run("sh", &["-c", command]).map_err(|error| error.to_string())
}

fn acks(rig: &Rig, action: &str, reason: &str) -> f64 {
    let labels = [format!("action=\"{action}\""), format!("reason=\"{reason}\"")];
    value(&rig.metrics(), "pendulum_ack_filter_acks_total", &[&labels[0], &labels[1]])
}

#[test]
fn killed_and_started_again_under_load() {
    with_cake("killed_and_started_again_under_load", link(), |rig| {
        let before = rig.inventory();
        let mut agent = rig.agent(ENFORCE);
        let mut second: Option<Process> = None;
        under_load(rig, IpVersion::V4, [60_000, 1_000_000], || {
            pause(1_000);
            agent.stop(libc::SIGKILL, Duration::from_secs(5)).expect("it dies");
            pause(700);
            assert!(rig.inventory().contains("pdl-up"), "the shaper stands without the agent");
            second = Some(rig.agent(ENFORCE));
        });
        // How much of those was left for it is chance.
        under_load(rig, IpVersion::V4, [60_000, 400_000], || ());
        until("an ACK merged by the second agent", || acks(rig, "held", "redundant") > 0.0);
        stop(second.expect("a second agent"));
        assert_eq!(rig.inventory(), before);
    });
}

#[test]
fn the_line_goes_down_and_comes_back_under_load() {
    with_cake("the_line_goes_down_and_comes_back_under_load", link(), |rig| {
        let before = rig.inventory();
        let agent = rig.agent(ENFORCE);
        // The kernel forgets both when the device goes down.
        let kept = |what: &str| {
            let shown = rig.gateway(&["ip", "-4", what, "show", "dev", WAN_DEVICE]).expect("a list");
            shown.lines().filter(|line| !line.contains("proto kernel")).map(str::to_owned).collect::<Vec<_>>()
        };
        let (routes, neighbours) = (kept("route"), kept("neigh"));
        under_load(rig, IpVersion::V4, [40_000, 700_000], || {
            pause(1_200);
            shell(&rig.lab.gateway(), "ip link set wan0 down").expect("down");
            pause(600);
            shell(&rig.lab.gateway(), "ip link set wan0 up").expect("up");
            for (what, lines) in [("route", &routes), ("neigh", &neighbours)] {
                for line in lines {
                    // `show` prints states and flags that `replace` does not take.
                    let line = line.replace(" linkdown", "").replace(" PERMANENT", " nud permanent");
                    shell(&rig.lab.gateway(), &format!("ip -4 {what} replace {line} dev {WAN_DEVICE}"))
                        .expect("put back");
                }
            }
            until("shaping", || rig.state()["links"][0]["shape"]["state"] == "enforcing");
        });
        assert!(acks(rig, "held", "redundant") > 0.0);
        stop(agent);
        assert_eq!(rig.inventory(), before);
    });
}

/// A filter of somebody else on the WAN device's egress sees a shaped packet before the queue and behind it. The kernel skips its action behind
/// an ifb (`tc_skip_classify`), so that a policer counts the packet once.
#[test]
fn a_foreign_filter_sees_shaped_packets_twice_and_acts_once() {
    with_cake("a_foreign_filter_sees_shaped_packets_twice_and_acts_once", link(), |rig| {
        const PACKETS: u64 = 5;
        let (gateway, home) = (rig.lab.gateway(), rig.lab.host(Role::D2));
        let filter = "tc qdisc add dev wan0 clsact \
                      && tc filter add dev wan0 egress protocol ip pref 10 u32 match ip protocol 17 0xff action continue";
        shell(&gateway, filter).expect("a filter");
        // How often the filter matched, and its action ran.
        let counted = || {
            let shown = shell(&gateway, "tc -s filter show dev wan0 egress pref 10").expect("filters");
            let number = |before: &str, after: &str| -> u64 {
                let found = shown.split(before).nth(1).and_then(|rest| rest.split(after).next());
                found
                    .and_then(|text| text.trim().parse().ok())
                    .unwrap_or_else(|| panic!("no {before}: {shown}"))
            };
            (number("rule hit ", " "), number(" bytes ", " pkt"))
        };
        let send = || {
            let remote = Role::D1.address(IpVersion::V4).expect("an address");
            let datagrams = format!("for i in $(seq {PACKETS}); do echo x >/dev/udp/{remote}/9; done");
            home.run("bash", &["-c", &datagrams]).expect("they are sent");
        };
        let before = rig.inventory();
        send();
        until("the datagrams without a shaper", || counted() == (PACKETS, PACKETS));
        let agent = rig.agent(ENFORCE);
        until("shaping", || rig.state()["links"][0]["shape"]["state"] == "enforcing");
        send();
        until("the datagrams with one", || counted() == (3 * PACKETS, 2 * PACKETS));
        stop(agent);
        assert_eq!(rig.inventory(), before);
    });
}

/// The filter sees addresses as they are behind the translation, on both passes.
#[test]
fn behind_network_address_translation() {
    const TEST: &str = "behind_network_address_translation";
    with_cake(TEST, link(), |rig| {
        let gateway = rig.lab.gateway();
        let rules = "nft add table ip shape && nft 'add chain ip shape out { type nat hook postrouting priority srcnat; }' \
                     && nft add rule ip shape out oifname wan0 counter masquerade \
                     && nft 'add chain ip shape through { type filter hook forward priority filter; }' \
                     && nft add rule ip shape through ct state invalid counter \
                     && nft add rule ip shape through ct state established counter";
        if let Err(reason) = shell(&gateway, rules) {
            return skipped(
                TEST,
                &format!("no nft, or no masquerade in this kernel: {}", reason.replace('\n', " ")),
            );
        }
        let before = rig.inventory();
        let agent = rig.agent(ENFORCE);
        under_load(rig, IpVersion::V4, [60_000, 400_000], || ());
        let table = shell(&gateway, "nft list table ip shape").expect("the rules");
        let packets = |rule: &str| -> u64 {
            let counted = table.split(&format!("{rule} counter packets ")).nth(1).expect("the rule");
            counted.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
        };
        assert!(packets("\"wan0\"") > 0, "nothing was translated: {table}");
        // Connection tracking follows every window: ACKs that are withheld or rewritten behind it must not confuse it.
        assert!(packets("ct state established") > 400, "{table}");
        assert_eq!(packets("ct state invalid"), 0, "{table}");
        pause(1_200);
        assert!(acks(rig, "rewritten", "newest") > 0.0);
        stop(agent);
        assert_eq!(rig.inventory(), before);
    });
}

/// What the uplink's queue sends at, bytes per second.
fn bandwidth(rig: &Rig) -> u64 {
    rig.root("pdl-up")["options"]["bandwidth"].as_u64().expect("a rate")
}

#[test]
fn another_rate_while_packets_pass() {
    with_cake("another_rate_while_packets_pass", link(), |rig| {
        let shape = format!("{ENFORCE}\nrate-percent = 98");
        let before = rig.inventory();
        let mut agent = rig.agent(&shape);
        assert_eq!(bandwidth(rig), 98_000 / 8);
        let shaper = || rig.gateway(&["ip", "-o", "link", "show", "type", "ifb"]).expect("links");
        let device = shaper();
        under_load(rig, IpVersion::V6, [30_000, 400_000], || {
            pause(800);
            let file = rig.configuration(&shape);
            let text = std::fs::read_to_string(&file).expect("the configuration");
            let slower = text.replace("uplink-rate = \"100kbit\"", "uplink-rate = \"80kbit\"");
            assert_ne!(slower, text, "{text}");
            std::fs::write(&file, slower).expect("written");
            agent.signal(libc::SIGHUP).expect("told");
            until("the new rate", || bandwidth(rig) == 78_400 / 8);
        });
        assert_eq!(rig.state()["links"][0]["shape"]["uplink"]["rate_bps"], 78_400);
        assert_eq!(shaper(), device, "the shaper stayed, with what stood in it");
        stop(agent);
        assert_eq!(rig.inventory(), before);
    });
}

/// Packets and bytes that a shaping device's queue has sent.
fn sent(rig: &Rig, device: &str) -> [u64; 2] {
    let root = rig.root(device);
    ["packets", "bytes"].map(|name| root[name].as_u64().expect("a number"))
}

#[test]
fn the_downlink_is_shaped_too() {
    with_cake("the_downlink_is_shaped_too", link(), |rig| {
        let before = rig.inventory();
        let agent = rig.agent(&format!("{ENFORCE}\ndownlink = true"));
        assert!(rig.inventory().contains("pdl-dn"));
        under_load(rig, IpVersion::V4, [60_000, 400_000], || ());
        let [_, bytes] = sent(rig, "pdl-dn");
        assert!(bytes > 400_000, "{bytes} bytes came through the downlink's shaper");
        pause(1_200);
        let state = rig.state();
        let link = &state["links"][0];
        assert_eq!(
            link["directions"]["down"]["queue"]["qdisc"], "cake",
            "{}",
            link["directions"]["down"]["queue"]
        );
        assert_eq!(link["shape"]["downlink"]["rate_bps"].as_u64().expect("a rate") % 1_000, 0);
        stop(agent);
        assert_eq!(rig.inventory(), before);
    });
}

/// With offloads on, the home sends super-packets, and ACKs whose checksum the device is to fill in
/// (CHECKSUM_PARTIAL). The WAN device cannot: what the filter left is what the kernel completes, and D1 checks it.
#[test]
fn super_packets_are_split_and_partial_checksums_completed() {
    let spec = LinkSpec { offloads: true, ..link_of(["8mbit", "800kbit"], [60_000, 30_000]) };
    with_cake("super_packets_are_split_and_partial_checksums_completed", spec, |rig| {
        shell(&rig.lab.gateway(), "ethtool -K wan0 tx off").expect("checksums by software");
        // Beyond the gateway nobody may take the checksum on trust.
        for (role, device) in [(Role::R1, "link0"), (Role::D1, "eth0"), (Role::U1, "eth0")] {
            rig.lab.host(role).run("ethtool", &["-K", device, "rx", "off", "gro", "off"]).expect("ethtool");
        }
        let before = rig.inventory();
        let agent = rig.agent(ENFORCE);
        let skbs = || -> u64 {
            let text = rig.lab.host(Role::U2).run("cat", &["/proc/net/dev"]).expect("counters");
            let line = text.lines().find_map(|line| line.trim().strip_prefix("eth0:")).expect("eth0");
            line.split_whitespace().nth(9).and_then(|n| n.parse().ok()).expect("packets sent")
        };
        let skbs_before = skbs();
        under_load(rig, IpVersion::V4, [400_000, 2_000_000], || ());
        pause(1_200);
        assert!(acks(rig, "rewritten", "newest") > 0.0);
        let [packets, bytes] = sent(rig, "pdl-up");
        assert!(bytes > 400_000, "{bytes}");
        assert!(bytes / packets <= 1_514, "{bytes} bytes in {packets} packets");
        let came = skbs() - skbs_before;
        println!("{came} packets from the sender, {packets} leave the queue");
        assert!(packets > came, "no super-packet came: {came} sent, {packets} left");
        stop(agent);
        assert_eq!(rig.inventory(), before);
    });
}
