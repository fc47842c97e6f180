//! The machines of the lab: they reach each other, and are set up as the experiments take them to be.

use pendulum_lab::lab::{Lab, LinkSpec};
use pendulum_lab::topology::{IpVersion, Role};
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_model::segment::Direction;

use super::{can_run, seconds};

/// Else the first packets are lost, and IPv6 has no routes yet.
#[test]
fn every_wire_carries_once_the_lab_has_started() {
    if !can_run() {
        return;
    }
    let lab = Lab::start(LinkSpec::default()).unwrap();
    for role in Role::ALL {
        let shown = lab.host(role).run("ip", &["-o", "link", "show", "type", "veth"]).unwrap();
        assert!(
            !shown.is_empty() && shown.lines().all(|line| line.contains(" state UP ")),
            "{role}: {shown}"
        );
    }
}

#[test]
fn all_machines_reach_each_other_by_both_ip_versions() {
    if !can_run() {
        return;
    }
    let lab = Lab::start(LinkSpec { offloads: true, ..LinkSpec::default() }).unwrap();
    for (from, to) in
        [(Role::D2, Role::D1), (Role::U2, Role::U1), (Role::D1, Role::U2), (Role::Gateway, Role::U1)]
    {
        for version in [IpVersion::V4, IpVersion::V6] {
            let address = to.address(version).unwrap().to_string();
            lab.host(from).run("ping", &["-c", "1", "-W", "5", &address]).unwrap();
        }
    }
    let spec = TransferSpec { ip: IpVersion::V6, ..TransferSpec::new(Direction::Down, seconds(1)) };
    let report = Transfer::start(&lab, spec).unwrap().finish(seconds(20)).unwrap();
    assert!(report.receiver.intervals.iter().map(|interval| interval.bytes).sum::<u64>() > 0);
    let features = lab.gateway().run("ethtool", &["-k", "wan0"]).unwrap();
    assert!(features.contains("tcp-segmentation-offload: on"));
}

/// Else a flow that has had a timeout has two queues in the gateway's cake.
#[test]
fn senders_keep_the_hash_of_a_flow() {
    if !can_run() {
        return;
    }
    let lab = Lab::start(LinkSpec::default()).unwrap();
    for role in [Role::D1, Role::D2, Role::U1, Role::U2] {
        let value = lab.host(role).run("cat", &["/proc/sys/net/core/txrehash"]).unwrap();
        assert_eq!(value.trim(), "0", "{role}");
    }
}
