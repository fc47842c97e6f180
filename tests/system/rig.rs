//! Links between namespaces on which nothing is sent but by the test, and what is attached to their devices.

use std::process::Command;
use std::time::{Duration, Instant};

use pendulum::bpf::tcx_programs;
use serde_json::Value;

use crate::inside::inside;
use crate::netns::{Netns, outcome, run};

/// How long anything is waited for. Generous: a loaded machine must not fail a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A gateway with `wan0`, 192.0.2.1, and a provider with `isp`, 192.0.2.2.
pub(crate) fn pair(test: &str) -> Option<(Netns, Netns)> {
    let gateway = Netns::new(test)?;
    let provider = Netns::new(test)?;
    wire(&gateway, "wan0", &provider, "isp", "192.0.2");
    Some((gateway, provider))
}

/// A veth pair with addresses `prefix`.1 and `prefix`.2. Neighbours are known for good and IPv6 is left out, so that no
/// address resolution and no multicast report comes between.
pub(crate) fn wire(a: &Netns, a_device: &str, b: &Netns, b_device: &str, prefix: &str) {
    a.ip(&format!("link add {a_device} type veth peer name {b_device} netns {}", b.name));
    let mac = |end: u8| format!("02:00:00:00:01:{end:02x}");
    for (netns, device, own, other) in [(a, a_device, 1, 2), (b, b_device, 2, 1)] {
        netns.ip(&format!("link set dev {device} addrgenmode none"));
        netns.ip(&format!("link set dev {device} address {}", mac(own)));
        netns.ip(&format!("address add {prefix}.{own}/24 dev {device}"));
        netns.ip(&format!("link set dev {device} up"));
        netns.ip(&format!(
            "neighbour replace {prefix}.{other} lladdr {} dev {device} nud permanent",
            mac(other)
        ));
    }
    // The kernel tells of a carrier up to a second later: until then what is listed of the devices changes by itself.
    for (netns, device) in [(a, a_device), (b, b_device)] {
        wait_until("both ends have a carrier", || {
            netns.ip(&format!("link show dev {device}")).contains("state UP")
        });
    }
}

/// Everything that can be attached to the devices of a namespace, and the devices themselves.
pub(crate) fn attachments(netns: &Netns) -> String {
    let mut text = vec![
        run(netns.command("bpftool").args(["-j", "net", "show"])),
        run(netns.command("tc").args(["qdisc", "show"])),
        netns.ip("-d link show"),
    ];
    text.extend(devices(netns).iter().map(|device| attached_to(netns, device)));
    text.join("\n")
}

/// The TC programs and filters on one device.
pub(crate) fn attached_to(netns: &Netns, device: &str) -> String {
    // bpftool 7.1 does not know TCX yet.
    let mut text = inside(netns, || tcx_programs(device));
    for side in ["ingress", "egress"] {
        // Fails where the device has no clsact qdisc.
        let (_, filters, _) = outcome(netns.command("tc").args(["filter", "show", "dev", device, side]));
        text.push(filters);
    }
    text.join("\n")
}

fn devices(netns: &Netns) -> Vec<String> {
    let links: Value = serde_json::from_str(&netns.ip("-j link show")).unwrap();
    let names = links.as_array().unwrap().iter().map(|link| link["ifname"].as_str().unwrap().to_owned());
    names.collect()
}

/// Packets that a device has received and sent, by `ip -s link`.
pub(crate) fn packets(netns: &Netns, device: &str) -> (u64, u64) {
    let links: Value = serde_json::from_str(&netns.ip(&format!("-s -j link show dev {device}"))).unwrap();
    let count = |way: &str| links[0]["stats64"][way]["packets"].as_u64().unwrap();
    (count("rx"), count("tx"))
}

/// Sends echo requests from `netns` and has them all answered.
pub(crate) fn ping(netns: &Netns, address: &str, count: u64) {
    run(netns.command("ping").args(["-q", "-c", &count.to_string(), "-i", "0.01", address]));
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the tests may make namespaces; says why if not.
pub(crate) fn is_allowed(test: &str) -> bool {
    let allowed = pendulum_lab::is_root();
    if !allowed {
        eprintln!("SKIPPED {test}: network namespaces need root");
    }
    allowed
}

/// Whether a kernel can do what `ip` or `tc` asks for; says why if not.
pub(crate) fn is_possible(test: &str, command: &mut Command) -> bool {
    let (code, _, message) = outcome(command);
    if code != 0 {
        eprintln!("SKIPPED {test}: {command:?} fails: {}", message.trim());
    }
    code == 0
}
