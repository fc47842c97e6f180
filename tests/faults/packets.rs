//! What a hostile or broken neighbour can put on the wire.

use crate::agent::Agent;
use crate::netns::{Netns, run};
use crate::rig::{pair, ping};

/// Sends so many frames from `isp`: of random bytes behind a plausible start, or SYNs from random addresses.
const SENDER: &str = "import random, socket, struct, sys
random.seed(7)
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(('isp', 0))
home, own = bytes.fromhex('020000000101'), bytes.fromhex('020000000102')
def noise():
    kind = random.choice([b'\\x08\\x00\\x45', b'\\x86\\xdd\\x60', b'\\x81\\x00\\x00\\x01\\x08\\x00\\x45', b'\\x88\\x64\\x11\\x00', b''])
    return kind + random.randbytes(random.randrange(20, 200))
def syn():
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 40, random.randrange(65536), 0, 64, 6, 0, random.randbytes(4), bytes([192, 0, 2, 1]))
    tcp = struct.pack('!HHIIBBHHH', random.randrange(1024, 65536), 9, random.getrandbits(32), 0, 0x50, 2, 1024, 0, 0)
    return b'\\x08\\x00' + ip + tcp
make = noise if sys.argv[1] == 'noise' else syn
for _ in range(int(sys.argv[2])):
    wire.send(home + own + make())";

fn send(provider: &Netns, what: &str, count: u64) {
    run(provider.command("python3").args(["-c", SENDER, what, &count.to_string()]));
}

fn has_python(test: &str) -> bool {
    let there = std::process::Command::new("python3").arg("--version").output().is_ok();
    if !there {
        eprintln!("SKIPPED {test}: python3 is not installed");
    }
    there
}

#[test]
fn frames_of_random_bytes_do_no_harm_and_are_counted() {
    let test = "frames_of_random_bytes_do_no_harm_and_are_counted";
    let Some((gateway, provider)) = pair(test) else { return };
    if !has_python(test) {
        return;
    }
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    send(&provider, "noise", 20_000);
    ping(&provider, "192.0.2.1", 5);
    let losses = |agent: &Agent<'_>| {
        let link = agent.link("wan0");
        let reasons = link["losses"].as_object().unwrap();
        reasons.values().map(|count| count.as_u64().unwrap()).sum::<u64>()
    };
    agent.wait_until("what could not be read is counted by reason", |agent| losses(agent) > 1_000);
    assert_eq!(agent.get("/readyz").map(|(status, _)| status), Some(200));
    assert!(agent.end("TERM").success(), "{}", agent.log());
}

#[test]
fn a_flood_of_syns_stays_in_the_nursery() {
    let test = "a_flood_of_syns_stays_in_the_nursery";
    let Some((gateway, provider)) = pair(test) else { return };
    if !has_python(test) {
        return;
    }
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    // Answers go nowhere: the spoofed addresses have no route but the one to the provider.
    gateway.ip("route add blackhole default");
    send(&provider, "syn", 20_000);
    agent.wait_until("the attempts are counted", |agent| {
        agent.link("wan0")["flow_table"]["nursed"].as_u64() >= Some(19_000)
    });
    let table = agent.link("wan0")["flow_table"].clone();
    assert!(table["flows"].as_u64() < Some(50), "they do not push out real flows: {table}");
    ping(&provider, "192.0.2.1", 5);
    let (_, metrics) = agent.get("/metrics").unwrap();
    let series = metrics.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 1_000, "{series} series: addresses must not become labels");
    assert!(agent.end("TERM").success(), "{}", agent.log());
}
