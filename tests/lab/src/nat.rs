//! Address translation on the gateway, as nearly every home has it: on the WAN side all flows belong to the gateway's own address.
//!
//! nftables' masquerading, for both IP versions: a home translates IPv4 only, but what the lab is to show is a WAN without home addresses.

use crate::netns::{Host, NetnsError};
use crate::topology::WAN_DEVICE;

/// The gateway cannot translate addresses.
#[derive(Debug, thiserror::Error)]
#[error(
    "the gateway cannot translate addresses: {source}; it takes nft (Debian's package nftables) and a kernel with nf_tables, \
     nft_chain_nat, nft_masq and nf_conntrack; `./dev vm 6.12` runs the lab in a guest that has them"
)]
pub struct NatError {
    #[from]
    source: NetnsError,
}

/// Lets the gateway translate what goes out through its WAN device.
///
/// # Errors
/// If nft or the kernel refuses.
pub(crate) fn install(gateway: &Host) -> Result<(), NatError> {
    gateway.run_with_input("nft", &["-f", "-"], &rules())?;
    // What conntrack takes for invalid would pass untranslated. After the losses of a full drop-tail buffer its view of the windows is often
    // behind; OpenWrt sets the same.
    gateway.set_sysctl("net.netfilter.nf_conntrack_tcp_be_liberal", "1")?;
    Ok(())
}

fn rules() -> String {
    let table = |family: &str| {
        format!(
            "table {family} pendulum-lab {{\n  chain postrouting {{\n    type nat hook postrouting priority 100\n    \
             oifname \"{WAN_DEVICE}\" masquerade\n  }}\n}}\n"
        )
    };
    [table("ip"), table("ip6")].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ip_versions_are_translated_on_the_wan_device_alone() {
        let rules = rules();
        for family in ["table ip ", "table ip6 "] {
            assert!(rules.contains(family), "{rules}");
        }
        assert_eq!(rules.matches("oifname \"wan0\" masquerade").count(), 2, "{rules}");
    }
}
