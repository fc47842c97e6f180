//! What goes wrong around the agent, and what it must not lead to: traffic goes on, nothing stays attached, the figures
//! say what happened. docs/results/reliability.md lists these and the faults that other tests cover.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../cli/agent.rs"]
#[expect(dead_code, reason = "made for the tests of the command line; not all of it is needed here")]
mod agent;
#[path = "../support/craft.rs"]
#[expect(dead_code, reason = "other tests need other packets")]
mod craft;
#[path = "../system/foreign.rs"]
#[expect(dead_code, reason = "made for the system tests; not all of it is needed here")]
mod foreign;
#[path = "../system/inside.rs"]
mod inside;
#[path = "../cli/netns.rs"]
#[expect(dead_code, reason = "made for the tests of the command line; not all of it is needed here")]
mod netns;
#[path = "../system/packet_socket.rs"]
#[expect(dead_code, reason = "made for the system tests; not all of it is needed here")]
mod packet_socket;
#[path = "../system/rig.rs"]
#[expect(dead_code, reason = "made for the system tests; not all of it is needed here")]
mod rig;
#[path = "../system/tcp.rs"]
#[expect(dead_code, reason = "made for the system tests; not all of it is needed here")]
mod tcp;

mod chaos;
mod clock;
mod crowd;
mod kill;
mod link;
mod memory;
mod offload;
mod oom;
mod packets;
mod readers;
mod shape;
mod soak;
