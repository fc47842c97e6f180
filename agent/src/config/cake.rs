//! `[shape] cake` in tc's own words: tc-cake(8).

use std::ops::Range;

use pendulum_model::rate::{BufferSize, Span};

/// How the queue is shared out, as far as the user may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CakeOptions {
    /// Classes by DSCP.
    pub priorities: Priorities,
    /// Who gets equal shares; of the uplink.
    pub isolation: Isolation,
    /// Whether hosts behind address translation are distinguished; none: where the kernel can.
    pub nat: Option<bool>,
    /// Whether DSCP is cleared.
    pub wash: bool,
    /// Whether super-packets are taken apart.
    pub split_gso: bool,
    /// The round trip that the queue management works for, and how long a queue may stand; microseconds.
    pub times: Option<[u32; 2]>,
    /// Memory for packets, bytes; 0: by the rate.
    pub memory_bytes: u32,
    /// Bits of the firewall mark that choose the class; 0: none.
    pub fwmark: u32,
}

impl Default for CakeOptions {
    /// Hosts get equal shares, and connections of one host. No class by DSCP: what home hosts and the provider write there is not known.
    fn default() -> Self {
        Self {
            priorities: Priorities::BestEffort,
            isolation: Isolation::DualSource,
            nat: None,
            wash: false,
            split_gso: true,
            times: None,
            memory_bytes: 0,
            fwmark: 0,
        }
    }
}

/// `CAKE_DIFFSERV_*` of linux/pkt_sched.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Priorities {
    /// Three classes.
    Diffserv3 = 0,
    /// Four.
    Diffserv4 = 1,
    /// Eight.
    Diffserv8 = 2,
    /// One.
    BestEffort = 3,
    /// Eight by the old precedence bits.
    Precedence = 4,
}

/// `CAKE_FLOW_*` of linux/pkt_sched.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Isolation {
    /// One queue for all.
    None = 0,
    /// One for each source.
    Source = 1,
    /// One for each destination.
    Destination = 2,
    /// One for each pair of hosts.
    Hosts = 3,
    /// One for each connection.
    Flows = 4,
    /// Fair between sources, then between connections.
    DualSource = 5,
    /// Fair between destinations, then between connections.
    DualDestination = 6,
    /// Fair between both, then between connections.
    Triple = 7,
}

impl Isolation {
    /// Whether each connection has a queue of its own.
    pub const fn separates_connections(self) -> bool {
        matches!(self, Self::Flows | Self::DualSource | Self::DualDestination | Self::Triple)
    }

    /// The same for packets in the other direction.
    pub const fn mirrored(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
            Self::DualSource => Self::DualDestination,
            Self::DualDestination => Self::DualSource,
            other => other,
        }
    }
}

/// A word that cannot be taken: where it stands in the text, why, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) at: Range<usize>,
    pub(super) reason: String,
    pub(super) remedy: String,
}

/// What a word is about; two words about the same thing contradict each other.
const PRIORITIES: &str = "priorities";
const ISOLATION: &str = "isolation";
const NAT: &str = "nat";
const WASH: &str = "wash";
const GSO: &str = "super-packets";
const TIMES: &str = "round trip";
const MEMORY: &str = "memory";
const MARK: &str = "mark";

/// The times that tc-cake(8) has names for: round trip and standing queue, microseconds.
const NAMED_TIMES: [(&str, [u32; 2]); 8] = [
    ("datacentre", [100, 5]),
    ("lan", [1_000, 50]),
    ("metro", [10_000, 500]),
    ("regional", [30_000, 1_500]),
    ("internet", [100_000, 5_000]),
    ("oceanic", [300_000, 15_000]),
    ("satellite", [1_000_000, 50_000]),
    ("interplanetary", [1_000_000_000, 50_000_000]),
];

/// Words without a value, beside those times.
const WORDS: [&str; 19] = [
    "besteffort",
    "diffserv3",
    "diffserv4",
    "diffserv8",
    "precedence",
    "flowblind",
    "srchost",
    "dsthost",
    "hosts",
    "flows",
    "dual-srchost",
    "dual-dsthost",
    "triple-isolate",
    "nat",
    "nonat",
    "wash",
    "nowash",
    "split-gso",
    "no-split-gso",
];

/// Words that this file has keys of its own for, or that would be at odds with what the agent does.
fn ours(word: &str) -> Option<&'static str> {
    Some(match word {
        "bandwidth" | "unlimited" | "autorate-ingress" => {
            "the rate comes from the link's uplink-rate and downlink-rate, and from rate-percent"
        }
        "overhead" => "write the key overhead",
        "mpu" => "write the key mpu",
        "atm" | "ptm" | "noatm" => "write the key link-layer",
        "raw" => "leave out preset, overhead, mpu and link-layer",
        "ethernet" | "docsis" | "conservative" | "pppoe-ptm" | "bridged-ptm" | "pppoe-llcsnap"
        | "pppoe-vcmux" | "pppoa-llc" | "pppoa-vcmux" | "bridged-llcsnap" | "bridged-vcmux"
        | "ipoa-llcsnap" | "ipoa-vcmux" | "ether-vlan" | "via-ethernet" => {
            "write the key preset, or overhead and link-layer"
        }
        "ingress" | "egress" => "the agent sets it: egress for the uplink, ingress for the downlink",
        "ack-filter" | "ack-filter-aggressive" | "no-ack-filter" => "write the key ack-filter",
        _ => return None,
    })
}

impl CakeOptions {
    /// Reads tc's words.
    pub(super) fn parse(text: &str) -> Result<Self, Misfit> {
        let mut options = Self::default();
        let mut set: Vec<(&str, &str)> = Vec::new();
        let mut words = words(text);
        while let Some((at, word)) = words.next() {
            let misfit = |reason: String, remedy: String| Misfit { at: at.clone(), reason, remedy };
            let Some(about) = options.take(word) else {
                let Some((about, example)) = with_value(word) else {
                    return Err(match ours(word) {
                        Some(remedy) => misfit(format!("`{word}` is not for this key"), remedy.to_owned()),
                        None => misfit(format!("cake has no option `{word}`"), alike(word)),
                    });
                };
                let Some((value_at, value)) = words.next() else {
                    return Err(misfit(
                        format!("`{word}` has no value"),
                        format!("write for example {example}"),
                    ));
                };
                note(&mut set, about, word)
                    .map_err(|reason| misfit(reason, "keep one of them".to_owned()))?;
                options.take_value(word, value).ok_or_else(|| Misfit {
                    at: value_at,
                    reason: format!("`{value}` is no value for `{word}`"),
                    remedy: format!("write for example {example}"),
                })?;
                continue;
            };
            note(&mut set, about, word).map_err(|reason| misfit(reason, "keep one of them".to_owned()))?;
        }
        Ok(options)
    }

    /// A word without a value; what it is about.
    fn take(&mut self, word: &str) -> Option<&'static str> {
        if let Some((_, times)) = NAMED_TIMES.iter().find(|(name, _)| *name == word) {
            self.times = Some(*times);
            return Some(TIMES);
        }
        let mut priorities = |value| {
            self.priorities = value;
            Some(PRIORITIES)
        };
        match word {
            "besteffort" => return priorities(Priorities::BestEffort),
            "diffserv3" => return priorities(Priorities::Diffserv3),
            "diffserv4" => return priorities(Priorities::Diffserv4),
            "diffserv8" => return priorities(Priorities::Diffserv8),
            "precedence" => return priorities(Priorities::Precedence),
            _ => {}
        }
        let isolation = match word {
            "flowblind" => Isolation::None,
            "srchost" => Isolation::Source,
            "dsthost" => Isolation::Destination,
            "hosts" => Isolation::Hosts,
            "flows" => Isolation::Flows,
            "dual-srchost" => Isolation::DualSource,
            "dual-dsthost" => Isolation::DualDestination,
            "triple-isolate" => Isolation::Triple,
            _ => return self.switch(word),
        };
        self.isolation = isolation;
        Some(ISOLATION)
    }

    fn switch(&mut self, word: &str) -> Option<&'static str> {
        match word {
            "nat" | "nonat" => self.nat = Some(word == "nat"),
            "wash" | "nowash" => self.wash = word == "wash",
            "split-gso" | "no-split-gso" => self.split_gso = word == "split-gso",
            _ => return None,
        }
        Some(if word.ends_with("nat") {
            NAT
        } else if word.ends_with("wash") {
            WASH
        } else {
            GSO
        })
    }

    fn take_value(&mut self, word: &str, value: &str) -> Option<()> {
        match word {
            "rtt" => {
                let Span(span) = value.parse().ok()?;
                let round_trip = u32::try_from(span.as_micros()).ok().filter(|us| *us > 0)?;
                // As tc has it.
                self.times = Some([round_trip, (round_trip / 20).max(1)]);
            }
            "memlimit" => match value.parse().ok()? {
                BufferSize::Bytes(bytes) => {
                    self.memory_bytes = u32::try_from(bytes).ok().filter(|b| *b > 0)?
                }
                _ => return None,
            },
            _ => {
                let digits = value.strip_prefix("0x");
                let mask = digits.map_or_else(|| value.parse(), |digits| u32::from_str_radix(digits, 16));
                self.fwmark = mask.ok().filter(|mask| *mask > 0)?;
            }
        }
        Some(())
    }
}

fn with_value(word: &str) -> Option<(&'static str, &'static str)> {
    Some(match word {
        "rtt" => (TIMES, "rtt 50ms"),
        "memlimit" => (MEMORY, "memlimit 4mb"),
        "fwmark" => (MARK, "fwmark 0xff"),
        _ => return None,
    })
}

fn note<'a>(set: &mut Vec<(&'a str, &'a str)>, about: &'a str, word: &'a str) -> Result<(), String> {
    if let Some((_, before)) = set.iter().find(|(other, _)| *other == about) {
        return Err(format!("`{word}` after `{before}`: both set the same ({about})"));
    }
    set.push((about, word));
    Ok(())
}

/// The words and where they stand.
fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.split_whitespace().map(|word| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        (start..start + word.len(), word)
    })
}

fn alike(word: &str) -> String {
    let known =
        WORDS.into_iter().chain(NAMED_TIMES.map(|(name, _)| name)).chain(["rtt", "memlimit", "fwmark"]);
    match super::closest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "tc-cake(8) lists its options".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_is_isolation_by_host() {
        let options = CakeOptions::parse("").unwrap();
        assert_eq!(options, CakeOptions::default());
        assert_eq!(options.isolation, Isolation::DualSource);
        assert_eq!(options.isolation.mirrored(), Isolation::DualDestination);
        assert_eq!(Isolation::Triple.mirrored(), Isolation::Triple);
    }

    #[test]
    fn tc_s_words_are_understood() {
        let options =
            CakeOptions::parse("nat diffserv4 triple-isolate  wash no-split-gso satellite").unwrap();
        let expected = CakeOptions {
            priorities: Priorities::Diffserv4,
            isolation: Isolation::Triple,
            nat: Some(true),
            wash: true,
            split_gso: false,
            times: Some([1_000_000, 50_000]),
            ..CakeOptions::default()
        };
        assert_eq!(options, expected);
        let options = CakeOptions::parse("rtt 50ms memlimit 4mb fwmark 0xf0 nonat").unwrap();
        assert_eq!(options.times, Some([50_000, 2_500]), "a twentieth, as tc");
        assert_eq!((options.memory_bytes, options.fwmark, options.nat), (4 << 20, 0xf0, Some(false)));
    }

    /// Every word without a value is one, and none of them is ours.
    #[test]
    fn the_list_of_words_is_that_of_the_parser() {
        for word in WORDS.into_iter().chain(NAMED_TIMES.map(|(name, _)| name)) {
            assert!(CakeOptions::parse(word).is_ok(), "{word}");
            assert_eq!(ours(word), None, "{word}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, at, reason, remedy) in [
            ("nat difserv4", 4..12, "no option `difserv4`", "did you mean `diffserv4`?"),
            ("bandwidth 5mbit", 0..9, "not for this key", "uplink-rate"),
            ("nat ack-filter", 4..14, "not for this key", "the key ack-filter"),
            ("rtt", 0..3, "no value", "rtt 50ms"),
            ("rtt soon", 4..8, "no value for `rtt`", "rtt 50ms"),
            ("rtt 0", 4..5, "no value for `rtt`", "rtt 50ms"),
            ("memlimit 0", 9..10, "no value for `memlimit`", "memlimit 4mb"),
            ("memlimit 5gb", 9..12, "no value for `memlimit`", "memlimit 4mb"),
            ("fwmark 0xfffffffff", 7..18, "no value for `fwmark`", "fwmark 0xff"),
            ("nat nonat", 4..9, "`nonat` after `nat`", "keep one"),
            ("lan rtt 5ms", 4..7, "`rtt` after `lan`", "keep one"),
        ] {
            let misfit = CakeOptions::parse(text).expect_err(text);
            assert_eq!(misfit.at, at, "{text}");
            assert!(misfit.reason.contains(reason) && misfit.remedy.contains(remedy), "{text}: {misfit:?}");
        }
    }
}
