//! Rates and limits that `tc` sets are those that are read.

use pendulum::net::QdiscTree;

use crate::inside::inside;
use crate::netns::{Netns, outcome};

#[test]
fn rates_and_limits_are_those_that_tc_has_set() {
    let test = "rates_and_limits_are_those_that_tc_has_set";
    let Some(netns) = Netns::new(test) else { return };
    netns.ip("link add wan0 type veth peer name isp");
    let ifindex = netns.index("wan0") as u32;
    let tc = |command: &str| outcome(netns.command("tc").args(command.split(' ')));
    const HTB: &str = "qdisc add dev wan0 root handle 1: htb";
    let class = |parameters: &str| format!("class add dev wan0 parent {parameters}");
    let topmost = class("1: classid 1:1 htb rate 1mbit ceil 2mbit");
    let wide = class("1: classid 1:1 htb rate 1mbit ceil 40gbit");
    let second = class("1: classid 1:2 htb rate 3mbit");
    let inner = class("1:1 classid 1:10 htb rate 1mbit ceil 2mbit");
    // Megabits per second, bytes, and the kind of a queue without drop tail.
    for (commands, rate, limit_bytes, not_drop_tail) in [
        (vec![], None, None, Some("noqueue")),
        (vec!["qdisc add dev wan0 root bfifo limit 9000"], None, Some(9_000), None),
        (vec!["qdisc add dev wan0 root pfifo limit 50"], None, None, None),
        (
            vec!["qdisc add dev wan0 root tbf rate 2mbit burst 1600 limit 20000"],
            Some(2.0),
            Some(20_000),
            None,
        ),
        // Beyond 32 bits of bytes per second.
        (
            vec!["qdisc add dev wan0 root tbf rate 40gbit burst 90k limit 90000"],
            Some(4e4),
            Some(90_000),
            None,
        ),
        (vec![HTB], None, None, Some("htb")),
        (vec![HTB, &topmost], Some(2.0), None, Some("htb")),
        // An inner class has no more than its parent.
        (vec![HTB, &topmost, &second, &inner], Some(5.0), None, Some("htb")),
        (vec![HTB, &wide], Some(4e4), None, Some("htb")),
        (vec![HTB, &topmost, "qdisc add dev wan0 parent 1:1 bfifo limit 9000"], Some(2.0), Some(9_000), None),
    ] {
        tc("qdisc del dev wan0 root");
        for command in &commands {
            let (status, _, reason) = tc(command);
            if reason.contains("kind is unknown") {
                eprintln!("SKIPPED {test}: this kernel does not have what `tc {command}` adds");
                return;
            }
            assert_eq!(status, 0, "{command}: {reason}");
        }
        let tree = inside(&netns, || QdiscTree::read(ifindex)).unwrap();
        let megabits = tree.rate().map(|(rate, _)| rate.bytes_per_second() * 8.0 / 1e6);
        let found = (megabits, tree.limit_bytes(), tree.drop_tail().err());
        assert_eq!(found, (rate, limit_bytes, not_drop_tail), "{commands:?}: {tree:?}");
    }
}
