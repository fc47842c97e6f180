//! A hundred thousand conversations at once, and one that matters.

use std::time::Duration;

use serde_json::Value;

use crate::agent::Agent;
use crate::craft::{self, LinkLayer};
use crate::packet_socket::PacketSocket;
use crate::rig::{pair, ping};
use crate::tcp::{Background, Transfer};

const FLOWS: u32 = 100_000;
/// One of kernel memory takes 664 bytes; the agent keeps a row of its own for each, and makes the next while it shows the last.
const RESIDENT_KB_PER_FLOW: u64 = 2;

pub(crate) fn resident_kb(agent: &Agent<'_>) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// `crowd` conversations. Both ends of each conversation: the home end's address and port tell them apart. The first segment comes into the nursery, the
/// answer moves it to the table.
pub(crate) fn converse(crowd: u32, home: &PacketSocket, remote: &PacketSocket) {
    // Where the source address stands in the frame; no host has these addresses (RFC 2544).
    const HOME_ADDRESS: [usize; 2] = [14 + 12, 14 + 16];
    let frame = |segment: craft::Tcp, number: u32, address: usize| {
        let mut bytes = segment.home_port((number % 50_000) as u16 + 10_000).build(LinkLayer::Ethernet).bytes;
        bytes[address..address + 4].copy_from_slice(&[198, 18, 0, (number / 50_000) as u8 + 1]);
        bytes
    };
    // The nursery is smaller than the crowd: each is answered before it is forgotten.
    for first in (0..crowd).step_by(250) {
        let numbers = || first..first + 250;
        remote.send_all(numbers().map(|number| frame(craft::down().payload(100), number, HOME_ADDRESS[1])));
        home.send_all(numbers().map(|number| frame(craft::up().ack(101), number, HOME_ADDRESS[0])));
    }
}

fn figure(table: &Value, name: &str) -> u64 {
    table[name].as_u64().unwrap_or_else(|| panic!("no {name} in {table}"))
}

/// `max_flows` is the room for them; gives how many were pushed out.
fn crowd(test: &str, max_flows: u64) -> Option<u64> {
    let (gateway, provider) = pair(test)?;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("[[link]]\nwan = \"wan0\"\nmax-flows = {max_flows}\n")).unwrap();
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let traffic = Background::start(Transfer::between(&gateway, &provider, "192.0.2.2:5201"));
    let busiest = |agent: &Agent<'_>| agent.json("/api/v1/flows?sort=bytes&limit=1")["flows"][0].clone();
    let payload = |flow: &Value| flow["up"]["payload_bytes"].as_u64().unwrap_or(0);
    agent.wait_until("the transfer is there", |agent| payload(&busiest(agent)) > 1_000_000);
    let (before, objects, resident) = (busiest(&agent), agent.kernel_objects(), resident_kb(&agent));

    converse(FLOWS, &PacketSocket::ethernet(&gateway, "wan0"), &PacketSocket::ethernet(&provider, "isp"));
    let table = |agent: &Agent<'_>| agent.link("wan0")["flow_table"].clone();
    agent.wait_until("all have been met", |agent| {
        let table = table(agent);
        figure(&table, "promoted") > u64::from(FLOWS) * 99 / 100
            && figure(&table, "evicted") + figure(&table, "flows") + figure(&table, "expired")
                >= figure(&table, "promoted")
    });
    let table = table(&agent);
    // The transfer is measured in the middle of them, as before.
    traffic.assert_flows();
    agent.wait_until("the transfer goes on", |agent| payload(&busiest(agent)) > payload(&before) + 1_000_000);
    let after = busiest(&agent);
    assert_eq!(after["client"], before["client"]);
    assert!(after["age_s"].as_f64() > before["age_s"].as_f64(), "{after:#}");
    assert!(after["up"]["rtt_last_s"].as_f64() > Some(0.0), "{after:#}");
    ping(&provider, "192.0.2.1", 5);

    assert!(figure(&table, "flows") <= max_flows, "{table}");
    let (status, metrics) = agent.get("/metrics").unwrap();
    assert_eq!(status, 200);
    let series = metrics.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 1_000, "{series} series: addresses must not become labels");
    let listed = agent.json("/api/v1/flows?limit=10000");
    assert_eq!(listed["flows"].as_array().unwrap().len() as u64, 10_000.min(figure(&table, "flows")));
    assert_eq!(agent.kernel_objects(), objects);
    let grown = resident_kb(&agent).saturating_sub(resident);
    println!("room for {max_flows}: {table}; {grown} kB more resident than {resident}");
    // What it keeps for each flow, and what the list of ten thousand took to write.
    assert!(
        grown < 40_000 + RESIDENT_KB_PER_FLOW * max_flows.min(FLOWS.into()),
        "{grown} kB more than {resident}"
    );
    std::thread::sleep(Duration::from_millis(10));
    traffic.finish();
    assert!(agent.end("TERM").success(), "{}", agent.log());
    Some(figure(&table, "evicted"))
}

#[test]
fn a_hundred_thousand_flows_have_room() {
    let evicted = crowd("a_hundred_thousand_flows_have_room", 1 << 17);
    assert!(evicted.is_none_or(|evicted| evicted < u64::from(FLOWS) / 100), "{evicted:?} were pushed out");
}

#[test]
fn a_hundred_thousand_flows_have_no_room() {
    let evicted = crowd("a_hundred_thousand_flows_have_no_room", 1 << 14);
    assert!(evicted.is_none_or(|evicted| evicted > u64::from(FLOWS) / 2), "{evicted:?} were pushed out");
}
