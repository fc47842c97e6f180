//! The protocols' counters: /proc/net/snmp and /proc/net/netstat.

/// A counter of such a file: a line of names, then one of values, both begin with the group (`TcpExt`).
pub fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let of_group = |line| str::strip_prefix(line, group)?.strip_prefix(':');
    let mut lines = text.lines().filter_map(of_group).map(str::split_ascii_whitespace);
    let place = lines.next()?.position(|word| word == name)?;
    lines.next()?.nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_stands_below_its_name() {
        let text = "Tcp: InSegs\nTcp: 9\nTcpExt: SyncookiesSent TCPTimeouts TCPLoss\nTcpExt: 1 23 4\nIpExt: InNoRoutes\nIpExt: 5\n";
        assert_eq!(counter(text, "TcpExt", "TCPTimeouts"), Some(23));
        assert_eq!(counter(text, "Tcp", "InSegs"), Some(9));
        assert_eq!(counter(text, "TcpExt", "InNoRoutes"), None);
        assert_eq!(counter(text, "UdpLite", "InNoRoutes"), None);
    }
}
