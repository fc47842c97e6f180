//! What reloading keeps true of the links, for any two files; and of what is reported about it.

use std::collections::BTreeSet;

use super::*;
use crate::config::Changes;

/// Links of few names and devices, so that they meet often; each has a rate of its own.
fn links() -> impl Strategy<Value = Vec<LinkConfig>> {
    let ends = proptest::collection::vec((0_u8..4, 0_u8..4, 1_u64..1_000), 1..4);
    ends.prop_map(|ends| {
        let mut links: Vec<LinkConfig> = Vec::new();
        for (name, wan, rate) in ends {
            let (name, wan) = (format!("n{name}"), format!("w{wan}"));
            if links.iter().all(|link| link.name != name && link.wan != wan) {
                let rates = PerDirection { up: Rate::from_bits_per_second(rate), down: None };
                links.push(LinkConfig { name, rates, ..LinkConfig::new(wan) });
            }
        }
        links
    })
}

fn active(links: Vec<LinkConfig>) -> Active {
    Active { config: Config { links, ..Config::default() }, ..Active::default() }
}

fn told(changes: &[String], link: &LinkConfig, what: &str) -> bool {
    changes.contains(&format!("link {} on {} ({what})", link.name, link.wan))
}

fn count(links: &[LinkConfig], key: impl Fn(&LinkConfig) -> &String) -> usize {
    links.iter().map(key).collect::<BTreeSet<_>>().len()
}

proptest! {
    /// A link is its name and its device. What is in both files goes on with its new
    /// rate; what shares neither name nor device with a running one begins; what the file no longer has ends, unless a link of the
    /// file wants its name or its device, which then waits.
    #[test]
    fn any_file_after_any_other(before in links(), wanted in links()) {
        let mut active = active(before.clone());
        let to_add = active.config.links_to_add(&wanted);
        let changes = active.adopt(&Config { links: wanted.clone(), ..Config::default() });
        let after = &active.config.links;

        // Figures of two links never mix.
        prop_assert_eq!(count(after, |link| &link.name), after.len());
        prop_assert_eq!(count(after, |link| &link.wan), after.len());
        let shares = |link: &LinkConfig, others: &[LinkConfig]| others.iter().any(|o| o.name == link.name || o.wan == link.wan);
        for link in &wanted {
            let kept = before.iter().any(|old| old.name == link.name && old.wan == link.wan);
            let begins = !shares(link, &before);
            prop_assert_eq!(after.contains(link), kept || begins, "{:?}", link);
            prop_assert_eq!(to_add.contains(link), begins, "{:?}", link);
            prop_assert_eq!(told(&changes.applied, link, "added"), begins, "{:?}", link);
            prop_assert_eq!(told(&changes.waiting, link, "added"), !kept && !begins, "{:?}", link);
        }
        for link in &before {
            let kept = wanted.iter().any(|new| new.name == link.name && new.wan == link.wan);
            let waits = !kept && shares(link, &wanted);
            prop_assert_eq!(after.contains(link), waits || wanted.contains(link), "{:?}", link);
            prop_assert_eq!(told(&changes.applied, link, "removed"), !kept && !waits, "{:?}", link);
            prop_assert_eq!(told(&changes.waiting, link, "removed"), waits, "{:?}", link);
        }
        // In the order of the file, and those that only wait behind them.
        let place = |link: &LinkConfig| wanted.iter().position(|new| new == link).unwrap_or(usize::MAX);
        prop_assert!(after.is_sorted_by_key(place));

        // The same file once more begins and ends nothing, and the same things wait.
        let settled = after.clone();
        let again = active.adopt(&Config { links: wanted, ..Config::default() });
        prop_assert_eq!(again, Changes { applied: vec![], waiting: changes.waiting });
        prop_assert_eq!(&active.config.links, &settled);
    }

    /// Percent of a rate in whole bits per second, by long division instead of one wide product; nothing overflows.
    #[test]
    fn shares_of_a_rate_are_rounded_down(bits in 1..=u64::MAX, percent in 50_u32..=100) {
        let of = |whole: u64| whole / 100 * u64::from(percent) + whole % 100 * u64::from(percent) / 100;
        let link = Rate::from_bits_per_second(bits).unwrap();
        let expected = Rate::from_bits_per_second(of(bits));
        let other = if percent == 77 { 78 } else { 77 };
        let shape = ShapeConfig { rate_percent: percent, downlink_rate_percent: other, ..ShapeConfig::default() };
        prop_assert_eq!(shape.uplink_rate(link), expected);
        let shape = ShapeConfig { rate_percent: other, downlink_rate_percent: percent, ..ShapeConfig::default() };
        prop_assert_eq!(shape.downlink_rate(link), expected);
    }
}

/// Less than a bit per second is no rate.
#[test]
fn nothing_of_a_rate_is_no_rate() {
    let bit = Rate::from_bits_per_second(1).unwrap();
    let shape = |percent| ShapeConfig {
        rate_percent: percent,
        downlink_rate_percent: percent,
        ..ShapeConfig::default()
    };
    assert_eq!((shape(99).uplink_rate(bit), shape(99).downlink_rate(bit)), (None, None));
    assert_eq!((shape(100).uplink_rate(bit), shape(100).downlink_rate(bit)), (Some(bit), Some(bit)));
}

/// What waits is reported until a file comes that wants nothing else, also while files are refused.
#[test]
fn what_waits_is_reported_until_it_is_not_wanted_any_more() {
    let plain = || parse("[[link]]\nwan = \"wan0\"\n").unwrap();
    let (_, receiver) = Active::start(plain());
    let mut active = receiver.borrow().clone();
    assert_eq!(active.config, plain());
    let first = active.reloads.clone();
    assert_eq!(
        (first.reloads_applied, first.reloads_refused, first.error, first.waiting_for_restart),
        (0, 0, None, vec![])
    );

    active.adopt(&parse("listen = \"[::1]:1\"\n[[link]]\nwan = \"wan0\"\n").unwrap());
    assert_eq!(active.reloads.waiting_for_restart, ["listen"]);
    active.refuse("a mistake".to_owned());
    active.refuse("another one".to_owned());
    let reloads = &active.reloads;
    assert_eq!(
        (reloads.reloads_applied, reloads.reloads_refused, reloads.error.as_deref()),
        (1, 2, Some("another one"))
    );
    assert_eq!(reloads.waiting_for_restart, ["listen"]);
    active.adopt(&plain());
    let reloads = &active.reloads;
    assert_eq!(
        (reloads.reloads_applied, reloads.reloads_refused, &reloads.error, &reloads.waiting_for_restart),
        (2, 2, &None, &vec![])
    );
}
