//! Not enough memory. What the OOM killer does is `kill -9` (kill.rs); what a limit on the address space does is an allocation
//! or a mapping that fails, anywhere.

use std::process::Stdio;

use crate::agent::{Agent, PENDULUM};
use crate::netns::{outcome, run};
use crate::rig::{attachments, pair, ping, wait_until};

/// Under each limit the agent works, or ends and leaves nothing.
#[test]
fn too_little_memory_leaves_nothing_behind() {
    let Some((gateway, provider)) = pair("too_little_memory_leaves_nothing_behind") else { return };
    let before = attachments(&gateway);
    let mut ended = 0;
    for megabytes in [56_u64, 64, 70, 96] {
        let mut command = gateway.command("prlimit");
        command.arg(format!("--as={}", megabytes << 20)).args([PENDULUM, "run", "--wan", "wan0"]);
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut agent = command.stdin(Stdio::null()).stderr(log.reopen().unwrap()).spawn().unwrap();
        let ready = ["-sf", "-m", "5", "http://127.0.0.1:9924/readyz"];
        let mut over = None;
        wait_until("it measures or has ended", || {
            over = agent.try_wait().unwrap();
            over.is_some() || outcome(gateway.command("curl").args(ready)).0 == 0
        });
        ping(&provider, "192.0.2.1", 5);
        let words = std::fs::read_to_string(log.path()).unwrap();
        println!("{megabytes} MiB: {over:?}: {}", words.lines().last().unwrap_or_default());
        match over {
            Some(status) => {
                ended += 1;
                assert!(
                    !status.success() && !words.is_empty(),
                    "it ends without a word under {megabytes} MiB"
                );
            }
            None => {
                agent.kill().unwrap();
                agent.wait().unwrap();
            }
        }
        wait_until("nothing is attached any more", || attachments(&gateway) == before);
    }
    assert!(ended > 0, "no limit was too low: the test tests nothing");
}

/// A limit that comes later, while it measures and many ask.
#[test]
fn memory_that_runs_out_later_stops_no_packet() {
    let Some((gateway, provider)) = pair("memory_that_runs_out_later_stops_no_packet") else { return };
    let before = attachments(&gateway);
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let size: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    let limit = format!("--as={}", (size + 256) << 10);
    run(gateway.command("prlimit").args(["--pid", &agent.id().to_string(), &limit]));
    let mut curl = gateway.command("curl");
    curl.args([
        "--silent",
        "--parallel",
        "--parallel-immediate",
        "--parallel-max",
        "100",
        "--max-time",
        "10",
    ]);
    curl.args(["--output", "/dev/null", "http://127.0.0.1:9924/metrics?[1-300]"]);
    // Whether all are answered is not the question.
    let _ = curl.status().unwrap();
    ping(&provider, "192.0.2.1", 5);
    let alive = agent.get("/readyz").map(|(status, _)| status);
    println!("afterwards /readyz says {alive:?}; {}", agent.log().lines().last().unwrap_or_default());
    agent.end("KILL");
    wait_until("nothing is attached any more", || attachments(&gateway) == before);
}
