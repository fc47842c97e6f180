//! The programs and filters of others go on working, and are left as they were.

use crate::agent::{Agent, PENDULUM};
use crate::foreign::{Count, Counter, Hook};
use crate::netns::{Netns, outcome, run};
use crate::rig::{attachments, is_possible, packets, pair, ping, wait_until};

const PINGS: u64 = 50;

/// A redirect of everything that comes in to an ifb device, as SQM scripts make it.
fn redirect_ingress(test: &str, gateway: &Netns) -> bool {
    let mut add = gateway.command("ip");
    if !is_possible(test, add.args(["link", "add", "ifb0", "type", "ifb"])) {
        return false;
    }
    gateway.ip("link set dev ifb0 addrgenmode none");
    gateway.ip("link set dev ifb0 up");
    run(gateway.command("tc").args(["qdisc", "add", "dev", "wan0", "clsact"]));
    let filter =
        "filter add dev wan0 ingress protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb0";
    run(gateway.command("tc").args(filter.split(' ')));
    true
}

/// Sends echo requests; every packet of theirs has to be counted and redirected.
fn assert_all_seen(gateway: &Netns, counters: &[Option<Counter>; 2], when: &str) {
    let counted = || counters.each_ref().map(|counter| counter.as_ref().map(Counter::packets));
    let redirected = || packets(gateway, "ifb0").1;
    let (before, redirected_before) = (counted(), redirected());
    ping(gateway, "192.0.2.2", PINGS);
    // Counted when it leaves the ifb device, by a tasklet.
    wait_until("the redirected packets have passed", || redirected() >= redirected_before + PINGS);
    assert_eq!(redirected(), redirected_before + PINGS, "{when}");
    assert_eq!(counted(), before.map(|count| count.map(|count| count + PINGS)), "{when}");
}

#[test]
fn a_second_tcx_program_and_an_ingress_redirect_go_on_working() {
    let test = "a_second_tcx_program_and_an_ingress_redirect_go_on_working";
    let Some((gateway, _provider)) = pair(test) else { return };
    if !redirect_ingress(test, &gateway) {
        return;
    }
    let counters =
        [Hook::TcxIngress, Hook::TcxEgress].map(|hook| Counter::attach(&gateway, "wan0", hook, Count::All));
    let before = attachments(&gateway);
    assert_eq!(before.matches("foreign").count(), counters.iter().flatten().count(), "{before}");
    assert_all_seen(&gateway, &counters, "before");
    for hook in ["tc", "xdp"] {
        let mut agent = Agent::start(&gateway, &["--wan", "wan0", "--ingress-hook", hook]);
        agent.wait_attached("wan0", gateway.index("wan0"));
        assert_all_seen(&gateway, &counters, hook);
        agent.wait_until("the echoes are counted", |agent| {
            let ways = &agent.link("wan0")["directions"];
            ["up", "down"].iter().all(|way| ways[way]["segments"]["non_tcp"] == PINGS)
        });
        assert!(agent.end("TERM").success());
        wait_until("they are attached as before", || attachments(&gateway) == before);
        assert_all_seen(&gateway, &counters, "after");
    }
}

#[test]
fn a_program_that_comes_later_goes_in_front_and_both_count() {
    let test = "a_program_that_comes_later_goes_in_front_and_both_count";
    let Some((gateway, _provider)) = pair(test) else { return };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let Some(late) = Counter::attach(&gateway, "wan0", Hook::TcxIngress, Count::All) else {
        eprintln!("SKIPPED {test}: this kernel has no TCX");
        return;
    };
    ping(&gateway, "192.0.2.2", PINGS);
    assert_eq!(late.packets(), PINGS);
    agent.wait_until("the echoes are counted", |agent| {
        agent.link("wan0")["directions"]["down"]["segments"]["non_tcp"] == PINGS
    });
    assert!(agent.end("TERM").success());
    ping(&gateway, "192.0.2.2", PINGS);
    assert_eq!(late.packets(), 2 * PINGS);
}

#[test]
fn another_xdp_program_is_not_replaced() {
    let Some((gateway, _provider)) = pair("another_xdp_program_is_not_replaced") else { return };
    let other = Counter::attach(&gateway, "wan0", Hook::Xdp, Count::All).unwrap();
    let before = attachments(&gateway);
    assert!(before.contains("foreign"), "{before}");
    let (code, stdout, message) =
        outcome(gateway.command(PENDULUM).args(["run", "--wan", "wan0", "--ingress-hook", "xdp"]));
    assert_eq!((code, stdout.as_str()), (69, ""), "{message}");
    for part in ["pendulum_xdp to wan0", "another XDP program may be there", "use ingress-hook = \"tc\""] {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
    assert_eq!(attachments(&gateway), before);
    ping(&gateway, "192.0.2.2", PINGS);
    assert_eq!(other.packets(), PINGS);

    // What the message advises works.
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    ping(&gateway, "192.0.2.2", PINGS);
    agent.wait_until("the echoes are counted", |agent| {
        agent.link("wan0")["directions"]["down"]["segments"]["non_tcp"] == PINGS
    });
    assert_eq!(other.packets(), 2 * PINGS);
}
