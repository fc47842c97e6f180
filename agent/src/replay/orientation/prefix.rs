//! Address prefixes as users write them.

use std::net::IpAddr;
use std::str::FromStr;

use super::Address;

/// A set of addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: Address,
    /// Of the 128 bits of the (mapped) address.
    bits: u32,
}

/// Why a text is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address prefix; write one like 192.168.0.0/16, 2001:db8::/48 or a single address")]
pub struct PrefixError {
    text: String,
}

impl Prefix {
    /// Whether an address belongs to it.
    pub fn contains(&self, address: Address) -> bool {
        (u128::from_be_bytes(self.address) ^ u128::from_be_bytes(address)) & mask(self.bits) == 0
    }

    /// The usual size of one network around an address: /24 for IPv4, /64 for IPv6.
    pub(super) fn neighbourhood(address: Address) -> Self {
        let bits = if IpAddr::from(address).to_canonical().is_ipv4() { 96 + 24 } else { 64 };
        Self { address: (u128::from_be_bytes(address) & mask(bits)).to_be_bytes(), bits }
    }
}

/// The first `bits` of 128.
fn mask(bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - bits).unwrap_or(0)
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let error = || PrefixError { text: text.to_owned() };
        let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.trim().parse().map_err(|_| error())?;
        let (mapped, offset) = match address {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped(), 96),
            IpAddr::V6(v6) => (v6, 0),
        };
        let length = match length {
            Some(length) => length.trim().parse::<u32>().map_err(|_| error())?,
            None => 128 - offset,
        };
        if length > 128 - offset {
            return Err(error());
        }
        Ok(Self { address: mapped.octets(), bits: offset + length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(prefix: &str, address: &str) -> bool {
        let address: IpAddr = address.parse().expect(address);
        let mapped = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        prefix.parse::<Prefix>().expect(prefix).contains(mapped.octets())
    }

    #[test]
    fn prefixes_of_both_families() {
        assert!(contains("192.168.0.0/16", "192.168.255.1"));
        assert!(!contains("192.168.0.0/16", "192.169.0.1"));
        assert!(contains("192.168.1.77", "192.168.1.77") && !contains("192.168.1.77", "192.168.1.78"));
        assert!(contains("0.0.0.0/0", "8.8.8.8") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("2001:db8::/48", "2001:db8:0:5::1") && !contains("2001:db8::/48", "2001:db8:1::1"));
        assert!(contains("::/0", "8.8.8.8"));
    }

    #[test]
    fn refusals_name_the_text_and_the_remedy() {
        for text in ["", "home", "192.168.0.0/33", "192.168.0.0/", "2001:db8::/129", "1.2.3/8", "1.2.3.4/-1"]
        {
            let message = text.parse::<Prefix>().expect_err(text).to_string();
            assert!(
                message.contains(&format!("{text:?}")) && message.contains("192.168.0.0/16"),
                "{message}"
            );
        }
    }
}
