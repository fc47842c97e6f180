//! Which congestion controls this kernel has.

use std::process::Command;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Whether connections can have it. Its module is loaded if the kernel has one that is not.
pub(in crate::experiment) fn is_available(name: &str) -> bool {
    is_listed(name) || {
        // Without modprobe, or such a module, the list stays as it is. busybox knows the short option only.
        let _ = Command::new("modprobe").args(["-q", &format!("tcp_{name}")]).status();
        is_listed(name)
    }
}

fn is_listed(name: &str) -> bool {
    std::fs::read_to_string(AVAILABLE)
        .is_ok_and(|list| list.split_ascii_whitespace().any(|word| word == name))
}

#[cfg(test)]
mod tests {
    #[test]
    fn reno_is_everywhere_and_nonsense_nowhere() {
        assert!(super::is_available("reno"));
        assert!(!super::is_available("ren"));
    }
}
