//! Hosts at home: their names.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use pendulum_lab::LinkSpec;
use pendulum_lab::topology::IpVersion;
use pendulum_model::segment::Direction;

use crate::rig::with_rig_of;

/// Where Debian's dnsmasq writes its leases.
const LEASES: &str = "/var/lib/misc/dnsmasq.leases";

/// One for D2, whose hardware address is always the same.
const LEASE: &str = "1795000000 02:00:00:00:03:02 192.168.1.2 laptop *\n";

/// A file with these words, until it is dropped.
struct Leases;

impl Leases {
    fn write(words: &str) -> std::io::Result<Self> {
        fs::create_dir_all(Path::new(LEASES).parent().unwrap())?;
        OpenOptions::new().write(true).create_new(true).open(LEASES)?.write_all(words.as_bytes())?;
        Ok(Self)
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        fs::remove_file(LEASES).unwrap();
    }
}

/// The host got its IPv4 address from dnsmasq, and has others of IPv6 by itself: its hardware address tells that they are its own.
#[test]
fn a_host_has_the_name_of_its_lease() {
    const TEST: &str = "a_host_has_the_name_of_its_lease";
    with_rig_of(TEST, LinkSpec::FIG1, true, |rig| {
        let download = rig.transfer_over(Direction::Down, IpVersion::V6);
        let host = |wanted: &str| {
            let host = |link: &serde_json::Value| link["delay"]["segments"]["home"]["host"].clone();
            rig.wait_for(wanted, |link| host(link).as_str().is_some_and(|host| host.contains(wanted)));
        };
        // Its address, while nobody knows a name.
        host("2001:db8:");
        match Leases::write(LEASE) {
            Ok(_leases) => host("laptop"),
            Err(error) => eprintln!("SKIPPED {TEST}: {LEASES}: {error}"),
        }
        drop(download);
    });
}
