use super::*;

/// Each host replies once, so many seconds late, about a packet of 100 bytes.
fn heard(hosts: &[(u64, f64)]) -> RttSamples {
    let mut all = HeardHosts::default();
    for (host, wait) in hosts {
        all.add(*host, *wait, *host as f64, 100.0);
    }
    all.take().expect("heard")
}

#[test]
fn the_middle_host_decides_and_the_lower_of_two() {
    let three = heard(&[(1, 0.3), (2, 0.1), (3, 0.2)]);
    assert_eq!((three.wait, three.passed, three.hosts, three.is_of_hop), (0.2, 3.0, 3, false));
    let two = heard(&[(1, 0.3), (2, 0.1)]);
    assert_eq!((two.wait, two.passed), (0.1, 2.0));
    assert!(HeardHosts::default().take().is_none());
}

#[test]
fn the_first_hop_decides_alone() {
    let mut all = HeardHosts::default();
    [(1, 0.3), (FIRST_HOP, 0.05), (2, 0.2)]
        .into_iter()
        .for_each(|(host, wait)| all.add(host, wait, 7.0, 100.0));
    let heard = all.take().expect("heard");
    assert_eq!((heard.wait, heard.is_of_hop, heard.is_sure(), heard.waiting), (0.05, true, true, 3));
}

#[test]
fn those_agree_that_are_within_half_of_it_or_10_ms() {
    assert_eq!(heard(&[(1, 0.125), (2, 0.25), (3, 0.375)]).agreeing, 3);
    assert_eq!(heard(&[(1, 0.124), (2, 0.25), (3, 0.376)]).agreeing, 1);
    assert_eq!(heard(&[(1, 0.0), (2, 0.01), (3, 0.0201)]).agreeing, 2);
    assert!(!heard(&[(1, 0.1), (2, 0.9)]).is_sure() && heard(&[(1, 0.1), (2, 0.11)]).is_sure());
}

#[test]
fn those_that_wait_as_long_count_with_their_bytes() {
    let heard = heard(&[(1, 0.1), (2, 0.2), (3, 0.3)]);
    assert_eq!((heard.waiting, heard.bytes), (2, 200.0));
}

/// Of one host the newest 40 ms count; a reply or two of them may be held back, and then what was before counts too.
#[test]
fn of_one_host_the_least_of_the_newest_stretch_counts() {
    let wait = |replies: &[(f64, f64)]| {
        let mut all = HeardHosts::default();
        replies.iter().for_each(|(passed, wait)| all.add(1, *wait, *passed, 100.0));
        let heard = all.take().expect("heard");
        assert_eq!(heard.bytes, 100.0 * replies.len() as f64);
        (heard.wait, heard.passed)
    };
    assert_eq!(wait(&[(0.0, 0.2), (0.02, 0.1), (0.04, 0.3)]), (0.1, 0.04));
    assert_eq!(wait(&[(0.02, 0.2), (0.0, 0.3)]), (0.2, 0.02));
    // A new stretch: one or two replies with those before, three alone.
    assert_eq!(wait(&[(0.0, 0.1), (0.05, 0.3)]).0, 0.1);
    assert_eq!(wait(&[(0.0, 0.1), (0.05, 0.3), (0.06, 0.4)]).0, 0.1);
    assert_eq!(wait(&[(0.0, 0.1), (0.05, 0.3), (0.06, 0.4), (0.07, 0.5)]).0, 0.3);
    assert_eq!(wait(&[(0.0, 0.5), (0.05, 0.3)]).0, 0.3);
}
