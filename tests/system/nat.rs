//! Whose flows those are that a gateway lists which translates addresses.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::agent::{Agent, PENDULUM};
use crate::inside::inside;
use crate::netns::{Netns, outcome, run};
use crate::rig::{pair, wire};
use crate::tcp::Transfer;

/// What every home gateway does: its own address for all that leaves, and one port that leads to a host.
const RULES: &str = "table inet home {
    chain arriving {
        type nat hook prerouting priority -100;
        iifname \"wan0\" tcp dport 8080 dnat ip to 10.0.0.1:5300
    }
    chain leaving {
        type nat hook postrouting priority 100;
        oifname \"wan0\" masquerade
    }
}
";

/// Whether the kernel takes the rules; says why if not.
fn load_rules(test: &str, gateway: &Netns) -> bool {
    let spawned =
        gateway.command("nft").args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = spawned else {
        eprintln!("SKIPPED {test}: nsenter is not installed");
        return false;
    };
    // Where there is no nft, it is gone before it reads.
    let _ = child.stdin.take().unwrap().write_all(RULES.as_bytes());
    let output = child.wait_with_output().unwrap();
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
        assert!(!reason.contains("syntax"), "{reason}");
        eprintln!("SKIPPED {test}: nft or the kernel cannot translate addresses: {reason}");
    }
    output.status.success()
}

/// IPv6 addresses of both ends of a pair that [`wire`] has made.
fn add_ipv6(a: &Netns, a_device: &str, b: &Netns, b_device: &str, prefix: &str) {
    for (netns, device, own, other) in [(a, a_device, 1, 2), (b, b_device, 2, 1)] {
        netns.ip(&format!("address add {prefix}::{own}/64 dev {device} nodad"));
        let mac = format!("02:00:00:00:01:{other:02x}");
        netns.ip(&format!("neighbour add {prefix}::{other} lladdr {mac} dev {device} nud permanent"));
    }
}

/// The hosts of a flat: home's, a guest's, the gateway, and the provider.
struct Flat {
    home: Netns,
    guest: Netns,
    gateway: Netns,
    provider: Netns,
}

impl Flat {
    fn new(test: &str) -> Option<Self> {
        let (gateway, provider) = pair(test)?;
        let (home, guest) = (Netns::new(test)?, Netns::new(test)?);
        wire(&home, "eth0", &gateway, "lan0", "10.0.0");
        wire(&guest, "eth0", &gateway, "guest0", "10.0.1");
        add_ipv6(&gateway, "wan0", &provider, "isp", "2001:db8");
        add_ipv6(&home, "eth0", &gateway, "lan0", "fd00");
        home.ip("route add default via 10.0.0.2");
        home.ip("-6 route add default via fd00::2");
        guest.ip("route add default via 10.0.1.2");
        let forward = ["-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"];
        run(gateway.command("sysctl").args(forward));
        load_rules(test, &gateway).then_some(Self { home, guest, gateway, provider })
    }

    /// The flow whose remote end has this port: what the API says of it, and nothing if it is not listed.
    fn flow(agent: &Agent<'_>, remote_port: u16) -> Option<Value> {
        let listed = agent.json("/api/v1/flows");
        let ends_with_port = |flow: &&Value| {
            let remote = if flow["home"] == "client" { &flow["server"] } else { &flow["client"] };
            remote.as_str().unwrap().ends_with(&format!(":{remote_port}"))
        };
        listed["flows"].as_array().unwrap().iter().find(ends_with_port).cloned()
    }
}

/// Whose a flow is, as the API says it.
fn whose(flow: &Value) -> [Value; 4] {
    ["home_host", "home_host_source", "home_device", "traffic"].map(|field| flow[field].clone())
}

fn config(lan: &str, after_start: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text =
        format!("[[link]]\nwan = \"wan0\"\nlan = {lan}\n[privileges]\nafter-start = \"{after_start}\"\n");
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn behind_nat_flows_belong_to_hosts() {
    let test = "nat::behind_nat_flows_belong_to_hosts";
    let Some(flat) = Flat::new(test) else { return };
    let Flat { home, guest, gateway, provider } = &flat;
    let file = config("[\"lan0\"]", "reattach");
    let mut agent = Agent::start(gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));

    let from_home = Transfer::between(home, provider, "192.0.2.2:5201");
    let from_guest = Transfer::between(guest, provider, "192.0.2.2:5202");
    let own = Transfer::between(gateway, provider, "192.0.2.2:5203");
    let six = Transfer::between(home, provider, "[2001:db8::2]:5204");
    // The provider's port of this one is not chosen by us.
    let listener = inside(home, || std::net::TcpListener::bind("10.0.0.1:5300")).unwrap();
    let caller = inside(provider, || std::net::TcpStream::connect("192.0.2.1:8080")).unwrap();
    let called_from = caller.local_addr().unwrap().port();
    let forwarded = Transfer::over(caller, listener.accept().unwrap().0);
    let transfers = [from_home, from_guest, own, six, forwarded];
    for transfer in &transfers {
        transfer.send(200_000);
    }

    let expected = [
        (5201, json!(["10.0.0.1", "conntrack", "lan0", "home"])),
        (5202, json!(["10.0.1.1", "conntrack", "guest0", "other"])),
        (5203, json!([null, null, null, "gateway"])),
        (5204, json!(["fd00::1", "conntrack", "lan0", "home"])),
        (called_from, json!(["10.0.0.1", "conntrack", "lan0", "home"])),
    ];
    for (port, _) in &expected {
        agent.wait_until("the flow is listed", |agent| Flat::flow(agent, *port).is_some());
    }
    for (port, expected) in &expected {
        let flow = Flat::flow(&agent, *port).unwrap();
        assert_eq!(json!(whose(&flow)), *expected, "{flow:#}");
        // On the WAN all are the gateway's.
        let home_end = if flow["home"] == "client" { &flow["client"] } else { &flow["server"] };
        let gateways = ["192.0.2.1:", "[2001:db8::1]:"];
        assert!(gateways.iter().any(|own| home_end.as_str().unwrap().starts_with(own)), "{flow:#}");
    }
    let listed = agent.json("/api/v1/flows");
    assert!(listed.get("home_host_missing").is_none(), "{listed:#}");

    // A flow that has ended keeps its host, although the kernel forgets it.
    let [from_home, ..] = transfers;
    from_home.finish();
    agent.wait_until("the flow has ended", |agent| {
        Flat::flow(agent, 5201).is_none_or(|flow| flow["state"] == "closed")
    });
    if let Some(flow) = Flat::flow(&agent, 5201) {
        assert_eq!(flow["home_host"], "10.0.0.1", "{flow:#}");
    }
    assert!(agent.end("TERM").success(), "{}", agent.log());

    let (_, report, _) = outcome(gateway.command(PENDULUM).args(["doctor", "--format", "json"]));
    let report: Value = serde_json::from_str(&report).unwrap();
    let check =
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "conntrack").unwrap();
    assert_eq!(check["status"], "ok", "{check:#}");
}

#[test]
fn without_the_right_no_host_is_named() {
    let test = "nat::without_the_right_no_host_is_named";
    let Some(flat) = Flat::new(test) else { return };
    let file = config("[]", "none");
    let mut agent = Agent::start(&flat.gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", flat.gateway.index("wan0"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    if !status.contains("CapEff:\t0000000000000000") {
        eprintln!(
            "SKIPPED {test}: this kernel's clsact filters need CAP_NET_ADMIN to be taken down, and it is kept"
        );
        return;
    }
    let transfer = Transfer::between(&flat.home, &flat.provider, "192.0.2.2:5201");
    transfer.send(200_000);
    agent.wait_until("the flow is listed", |agent| Flat::flow(agent, 5201).is_some());
    let flow = Flat::flow(&agent, 5201).unwrap();
    // Not the gateway's either: that is not known.
    assert_eq!(json!(whose(&flow)), json!([null, null, null, null]), "{flow:#}");
    let missing = agent.json("/api/v1/flows")["home_host_missing"].clone();
    let missing = missing.as_str().unwrap();
    assert!(missing.contains("CAP_NET_ADMIN") && missing.contains("privileges.after-start"), "{missing}");
    transfer.finish();
    assert!(agent.end("TERM").success(), "{}", agent.log());

    let bounding = ["--bounding-set", "-net_admin", PENDULUM, "doctor", "--format", "json"];
    let (_, report, _) = outcome(flat.gateway.command("setpriv").args(bounding));
    let report: Value = serde_json::from_str(&report).unwrap();
    let check =
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "conntrack").unwrap();
    assert!(
        check["status"] == "degraded" && check["reason"].as_str().unwrap().contains("CAP_NET_ADMIN"),
        "{check:#}"
    );
}
