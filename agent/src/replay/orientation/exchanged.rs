//! Whether the user has exchanged the two captures: the order in which packets pass them says that home is at one end, and
//! what is known of the addresses that it is at the other.

use std::fmt;
use std::net::IpAddr;

use super::Evidence;

/// Why the captures must have been exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanged {
    /// Packets of this address, which is home, leave the LAN capture's side last.
    Order {
        /// A home address.
        home: IpAddr,
        /// How that is known: it is private and the other end is not, or the user said so.
        evidence: Evidence,
    },
    /// Addresses are translated between the captures, and packets are translated before they come.
    Translation,
}

impl fmt::Display for Exchanged {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order { home, evidence } => {
                let known = match evidence {
                    Evidence::Option => "is home, by --home",
                    _ => "is private and thus home",
                };
                write!(
                    formatter,
                    "packets of {home}, which {known}, pass the WAN capture before the LAN capture"
                )
            }
            Self::Translation => {
                write!(
                    formatter,
                    "packets whose source was translated pass the WAN capture before the LAN capture"
                )
            }
        }
    }
}
