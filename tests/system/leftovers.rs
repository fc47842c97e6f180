//! However the agent ends, traffic does not notice, and nothing of it stays.

use std::os::unix::process::ExitStatusExt as _;

use crate::agent::{Agent, KernelObject};
use crate::rig::{attachments, pair};
use crate::tcp::{Background, Transfer};

#[test]
fn nothing_is_left_however_it_ends() {
    let Some((gateway, provider)) = pair("nothing_is_left_however_it_ends") else { return };
    let traffic = Background::start(Transfer::between(&gateway, &provider, "192.0.2.2:5201"));
    let before = attachments(&gateway);
    for hook in ["tc", "xdp"] {
        for signal in ["TERM", "INT", "KILL"] {
            let mut agent = Agent::start(&gateway, &["--wan", "wan0", "--ingress-hook", hook]);
            agent.wait_attached("wan0", gateway.index("wan0"));
            agent.wait_until("it measures both ways", |agent| {
                let segments = |pointer: &str| agent.link("wan0").pointer(pointer).unwrap().as_u64();
                segments("/directions/up/segments/data") > Some(0)
                    && segments("/directions/down/segments/ack") > Some(0)
            });
            let during = attachments(&gateway);
            assert!(during.contains("pendulum_up") && during != before, "{during}");
            let objects = agent.kernel_objects();
            let is_clsact = agent.link("wan0")["hooks"]["egress"] == "clsact";

            let status = agent.end(signal);
            match signal {
                "KILL" => assert_eq!(status.signal(), Some(libc::SIGKILL)),
                _ => assert!(status.success(), "{hook}, {signal}: {status}\n{}", agent.log()),
            }
            if signal == "KILL" && is_clsact {
                // Before Linux 6.6 the filters outlive the process, and pass everything on; the next start takes them down.
                traffic.assert_flows();
                let mut next = Agent::start(&gateway, &["--wan", "wan0"]);
                next.wait_attached("wan0", gateway.index("wan0"));
                assert!(next.log().contains("removed what an earlier run had left"), "{}", next.log());
                assert!(next.end("TERM").success());
            }
            KernelObject::wait_gone(&objects);
            assert_eq!(attachments(&gateway), before, "{hook}, {signal}");
            traffic.assert_flows();
        }
    }
    let (sent, received) = traffic.finish();
    println!("{received} bytes went through six starts and ends");
    assert_eq!(sent, received);
}
