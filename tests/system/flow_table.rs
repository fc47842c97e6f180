//! The flow table under pressure.

use serde_json::Value;

use crate::agent::Agent;
use crate::craft::{self, LinkLayer, flag};
use crate::metrics::Samples;
use crate::packet_socket::PacketSocket;
use crate::rig::pair;
use crate::tcp::{Background, Transfer};

const MAX_FLOWS: u64 = 256;
const FLOOD: u64 = 50_000;

fn config(lines: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("[[link]]\nwan = \"wan0\"\n{lines}")).unwrap();
    file
}

fn event(samples: &Samples, event: &str) -> u64 {
    samples.get(&format!("pendulum_flow_table_events_total{{link=\"wan0\",event=\"{event}\"}}")) as u64
}

#[test]
fn a_full_table_counts_what_it_pushes_out() {
    let Some((gateway, provider)) = pair("a_full_table_counts_what_it_pushes_out") else { return };
    let file = config(&format!("max-flows = {MAX_FLOWS}\n"));
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let flows = 3 * MAX_FLOWS;
    let ports = || (10_000..).take(flows as usize);
    // The home end's segment moves a flow from the nursery to the table.
    let (remote, home) = (PacketSocket::ethernet(&provider, "isp"), PacketSocket::ethernet(&gateway, "wan0"));
    remote.send_all(
        ports().map(|port| craft::down().home_port(port).payload(100).build(LinkLayer::Ethernet).bytes),
    );
    home.send_all(ports().map(|port| craft::up().home_port(port).ack(101).build(LinkLayer::Ethernet).bytes));
    // And its second one is seen in the table.
    home.send_all(ports().map(|port| craft::up().home_port(port).ack(101).build(LinkLayer::Ethernet).bytes));

    let table = |agent: &Agent<'_>| agent.link("wan0")["flow_table"].clone();
    let figure = |table: &Value, name: &str| table[name].as_u64().unwrap();
    agent.wait_until("pushed out flows are counted", |agent| {
        let table = table(agent);
        figure(&table, "promoted") >= flows
            && figure(&table, "evicted") + figure(&table, "flows") >= figure(&table, "promoted")
    });
    let table = table(&agent);
    println!("{flows} flows, room for {MAX_FLOWS}: {table}");
    let [present, promoted, evicted, expired] =
        ["flows", "promoted", "evicted", "expired"].map(|name| figure(&table, name));
    assert!(present <= MAX_FLOWS && present > 0, "{table}");
    assert_eq!(promoted, evicted + present + expired, "{table}");
    assert!(evicted >= flows - MAX_FLOWS, "{table}");
    let (_, text) = agent.get("/metrics").unwrap();
    let samples = Samples::parse(&text);
    assert_eq!([event(&samples, "promoted"), event(&samples, "evicted")], [promoted, evicted]);
}

#[test]
fn a_flood_of_syns_leaves_conversations_alone() {
    let Some((gateway, provider)) = pair("a_flood_of_syns_leaves_conversations_alone") else { return };
    let file = config(&format!("max-flows = {MAX_FLOWS}\nnursery = 64\n"));
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let traffic = Background::start(Transfer::between(&gateway, &provider, "192.0.2.2:5201"));
    let flow = |agent: &Agent<'_>| agent.json("/api/v1/flows?sort=bytes&limit=1")["flows"][0].clone();
    agent.wait_until("the conversation is there", |agent| {
        flow(agent)["up"]["payload_bytes"].as_u64() > Some(1_000_000)
    });
    let before = flow(&agent);

    let flood = PacketSocket::ethernet(&provider, "isp");
    flood.send_all((0..FLOOD).map(|number| {
        let syn = craft::down().home_port(number as u16).seq(number as u32).ack(0).flags(flag::SYN);
        syn.build(LinkLayer::Ethernet).bytes
    }));
    traffic.assert_flows();
    let (sent, received) = traffic.finish();
    assert_eq!(sent, received);

    agent.wait_until("the end of the transfer is swept", |agent| flow(agent)["state"] == "closed");
    // It was the same entry all the time: everything that was sent is in it. Flows are read at another moment than the totals.
    let payload = |agent: &Agent<'_>| {
        let totals = agent.link("wan0")["directions"]["up"]["payload_bytes"].as_u64();
        [totals, flow(agent)["up"]["payload_bytes"].as_u64()]
    };
    agent.wait_until("the flow has the totals of the link", |agent| {
        let [totals, flow] = payload(agent);
        totals == flow && totals >= Some(sent)
    });
    let (link, after) = (agent.link("wan0"), flow(&agent));
    let figure = |name: &str| link["flow_table"][name].as_u64().unwrap();
    println!("flood of {FLOOD} SYNs: {}", link["flow_table"]);
    assert!(figure("nursed") >= FLOOD * 9 / 10, "the flood arrived");
    assert_eq!([figure("promoted"), figure("evicted"), figure("restarted")], [1, 0, 0]);
    assert_eq!(after["client"], before["client"]);
}
