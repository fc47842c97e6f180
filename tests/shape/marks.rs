//! AccECN on Linux 7 at both ends: a gateway marks a download, its ACKs cross the filter, and the sender counts the marks
//! that the receiver has seen.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pendulum_lab::LinkSpec;
use pendulum_lab::topology::{IpVersion, Role};

use crate::rig::{Rig, skipped, stop, value, with_cake};
use crate::stream::{Flows, inside};

const PATIENCE: Duration = Duration::from_secs(90);
/// Places in `struct tcp_info` of Linux 7.0 (include/uapi/linux/tcp.h): `tcpi_delivered_ce`, `tcpi_received_ce`.
const DELIVERED_CE: usize = 196;
const RECEIVED_CE: usize = 248;
const TCP_INFO_BYTES: usize = 288;

/// Marked packets: as the sender takes them to be, and as the receiver has counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    delivered: u32,
    received: u32,
}

fn tcp_info(stream: &TcpStream, at: usize) -> io::Result<u32> {
    let mut info = [0_u8; TCP_INFO_BYTES];
    let mut length = TCP_INFO_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`, and says how many in `length`; both outlive the call.
    let result = unsafe {
        let (info, length) = (info.as_mut_ptr().cast(), &raw mut length);
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info, length)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if (length as usize) < at + 4 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "tcp_info is too short"));
    }
    Ok(u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]))
}

/// One download to its end: what each end has counted.
fn download(rig: &Rig, port: u16, bytes: usize) -> Result<Marks, String> {
    let (server, client) = (rig.lab.host(Role::D1), rig.lab.host(Role::D2));
    let address = SocketAddr::new(Role::D1.address(IpVersion::V4).expect("an endpoint"), port);
    let listener = inside(&server, || TcpListener::bind(address))?;
    let patient = |stream: &TcpStream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))
    };
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            inside(&server, || {
                let (mut stream, _) = listener.accept()?;
                patient(&stream)?;
                stream.write_all(&vec![7; bytes])?;
                // It comes once all of the download is there; so has every ACK by then.
                stream.read_exact(&mut [0])?;
                tcp_info(&stream, DELIVERED_CE)
            })
        });
        let received = scope.spawn(|| {
            inside(&client, || {
                let mut stream = TcpStream::connect(address)?;
                patient(&stream)?;
                stream.read_exact(&mut vec![0; bytes])?;
                let received = tcp_info(&stream, RECEIVED_CE)?;
                stream.write_all(&[1])?;
                stream.read_exact(&mut [0]).ok();
                Ok(received)
            })
        });
        let (sent, received) = (sent.join().expect("its thread"), received.join().expect("its thread"));
        Ok(Marks { delivered: sent?, received: received? })
    })
}

/// Both ends of the download speak AccECN; an error if this kernel does not.
fn speak(rig: &Rig, option: &str) -> Result<(), String> {
    for role in [Role::D1, Role::D2] {
        for (name, value) in [("net.ipv4.tcp_ecn", "3"), ("net.ipv4.tcp_ecn_option", option)] {
            rig.lab.host(role).set_sysctl(name, value).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Of so many data packets of the download one is marked, by its IP identification, which counts them; 0: none.
fn mark(rig: &Rig, one_of: u32) -> Result<(), String> {
    let source = Role::D1.address(IpVersion::V4).expect("an endpoint");
    let which = match one_of {
        0 => "ip length lt 200".to_owned(),
        1 => String::new(),
        _ => format!("ip id & {} == 0", one_of - 1),
    };
    let rules = format!(
        "nft delete table ip marks 2>/dev/null; nft add table ip marks \
         && nft 'add chain ip marks through {{ type filter hook forward priority filter; }}' \
         && nft 'add rule ip marks through ip saddr {source} ip length gt 200 ip ecn != not-ect {which} ip ecn set ce counter'"
    );
    rig.gateway(&["sh", "-c", &rules]).map(drop)
}

#[test]
fn the_sender_counts_the_marks_that_the_receiver_has_seen() {
    const TEST: &str = "the_sender_counts_the_marks_that_the_receiver_has_seen";
    with_cake(TEST, LinkSpec::FIG1, |rig| {
        if let Err(reason) = speak(rig, "2") {
            return skipped(TEST, &format!("no AccECN in this kernel: {reason}"));
        }
        if let Err(reason) = mark(rig, 0) {
            return skipped(TEST, &format!("no nft here: {}", reason.replace('\n', " ")));
        }
        let agent = rig.agent("mode = \"enforce\"\nack-filter = \"static\"");
        let held = |rig: &Rig| {
            let labels = ["action=\"held\"", "reason=\"redundant\""];
            value(&rig.metrics(), "pendulum_ack_filter_acks_total", &labels)
        };
        let mut wrong = Vec::new();
        let cases = [
            ("2", 0),
            ("2", 1_024),
            ("2", 128),
            ("2", 8),
            ("2", 1),
            ("0", 1_024),
            ("0", 128),
            ("0", 8),
            ("0", 1),
        ];
        for (case, (option, one_of)) in cases.into_iter().enumerate() {
            // Of many marks few segments are in flight, and few ACKs to merge.
            let bytes = match one_of {
                1 => 150_000,
                8 => 300_000,
                _ => 1_800_000,
            };
            speak(rig, option).expect("as before");
            mark(rig, one_of).expect("as before");
            let before = held(rig);
            let over = AtomicBool::new(false);
            let marks = std::thread::scope(|scope| {
                // ACKs meet a queue.
                let upload = scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        Flows::upload(IpVersion::V4, 200_000).run(&rig.lab)?;
                    }
                    Ok::<_, String>(())
                });
                let marks = download(rig, 30_000 + case as u16, bytes);
                over.store(true, Ordering::Relaxed);
                upload.join().expect("its thread").expect("an upload");
                marks
            });
            let marks = marks.expect("a download");
            let held = held(rig) - before;
            println!("option {option}, one of {one_of} marked: {marks:?}, {held} ACKs withheld");
            if marks.delivered != marks.received
                || (marks.received == 0) != (one_of == 0)
                || (held == 0.0 && one_of != 1)
            {
                wrong.push(format!("option {option}, {one_of}: {marks:?}, {held} withheld"));
            }
        }
        stop(agent);
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}
