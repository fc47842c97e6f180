//! What a running agent has measured of a link, for `pendulum advise --url`.

use std::fmt;
use std::time::Duration;

use pendulum_model::rate::{Rate, in_words};
use pendulum_wire::{Link, Name, State};

use crate::client::{AgentUrl, Client, Credentials};
use crate::exit::{Exit, Failure};

/// A link as it was measured. An unknown value is `None`.
pub(super) struct MeasuredLink {
    name: String,
    pub(super) wan: String,
    pub(super) uplink_rate: Option<Rate>,
    pub(super) downlink_rate: Option<Rate>,
    pub(super) round_trip: Option<Duration>,
    rate_source: Option<Name>,
}

impl MeasuredLink {
    /// Asks the agent for its link, or for that of this name.
    ///
    /// # Errors
    /// It does not answer, or which link is meant is not clear.
    pub(super) fn ask(
        address: &AgentUrl,
        credentials: &Credentials,
        link: Option<&str>,
    ) -> Result<Self, Failure> {
        let client = Client::new(address.clone(), credentials)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::new(Exit::Os, format!("cannot wait for an answer: {error}")))?;
        let state: State = runtime.block_on(client.json("/api/v1/state")).map_err(|trouble| {
            Failure::new(Exit::Unavailable, format!("{address}: {}; {}", trouble.reason, trouble.remedy))
        })?;
        Ok(Self::of(chosen(state.links, address, link)?))
    }

    fn of(link: Link) -> Self {
        Self {
            name: link.name,
            wan: link.wan,
            uplink_rate: link.link.uplink_rate_bps.and_then(Rate::from_bits_per_second),
            downlink_rate: link.link.downlink_rate_bps.and_then(Rate::from_bits_per_second),
            round_trip: link.base_round_trip_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            rate_source: link.link.rate_source,
        }
    }

    /// Why there is no advice yet.
    pub(super) fn unknown(&self, what: &str, option: &str) -> Failure {
        let reason = format!("the agent does not know the {what} of link {} yet", self.name);
        Failure::new(
            Exit::Unavailable,
            format!("{reason}; ask again once traffic has filled the link, or give {option}"),
        )
    }
}

fn chosen(mut links: Vec<Link>, address: &AgentUrl, wanted: Option<&str>) -> Result<Link, Failure> {
    let names = links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", ");
    let place = match wanted {
        Some(name) => links.iter().position(|link| link.name == name).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("--link {name}: {address} has no such link; it has {names}"))
        })?,
        None if links.len() > 1 => {
            let reason = format!("{address} has several links: {names}");
            return Err(Failure::new(Exit::Usage, format!("{reason}; choose one with --link NAME")));
        }
        None if links.is_empty() => {
            return Err(Failure::new(
                Exit::Unavailable,
                format!("{address} measures no link; is it the right agent?"),
            ));
        }
        None => 0,
    };
    Ok(links.swap_remove(place))
}

impl fmt::Display for MeasuredLink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Link {} on {}, as measured:", self.name, self.wan)?;
        for (what, rate) in [("down", self.downlink_rate), ("up", self.uplink_rate)] {
            match rate {
                Some(rate) => write!(out, " {} {what},", in_words(rate.bits_per_second() as f64))?,
                None => write!(out, " {what} unknown,")?,
            }
        }
        if let Some(source) = &self.rate_source {
            write!(out, " rates by {source},")?;
        }
        match self.round_trip {
            Some(time) => writeln!(out, " {:.0} ms round trip without queues.", time.as_secs_f64() * 1e3),
            None => writeln!(out, " round trip unknown."),
        }
    }
}

#[cfg(test)]
mod tests {
    use pendulum_wire::Rates;

    use super::*;

    fn links(names: &[&str]) -> Vec<Link> {
        let link = |name: &&str| {
            let link = Rates { uplink_rate_bps: Some(196_000), ..Rates::default() };
            Link {
                name: (*name).to_owned(),
                wan: "wan0".to_owned(),
                link,
                base_round_trip_s: Some(0.04),
                ..Link::default()
            }
        };
        names.iter().map(link).collect()
    }

    #[test]
    fn which_link_is_meant_has_to_be_clear() {
        let address: AgentUrl = "gateway".parse().unwrap();
        let ask = |names: &[&str], wanted| chosen(links(names), &address, wanted).map(|link| link.name);
        assert_eq!(ask(&["dsl"], None).ok().as_deref(), Some("dsl"));
        assert_eq!(ask(&["dsl", "lte"], Some("lte")).ok().as_deref(), Some("lte"));
        for (names, wanted, exit, part) in [
            (&["dsl", "lte"][..], None, Exit::Usage, "has several links: dsl, lte; choose one with --link"),
            (&["dsl"], Some("lte"), Exit::Usage, "it has dsl"),
            (&[], None, Exit::Unavailable, "measures no link"),
        ] {
            let failure = ask(names, wanted).unwrap_err();
            assert_eq!(failure.exit, exit);
            assert!(failure.message.contains(part), "{}", failure.message);
        }
    }

    #[test]
    fn what_is_not_known_is_said() {
        let measured = MeasuredLink::of(links(&["dsl"]).remove(0));
        let text = measured.to_string();
        assert!(text.contains("down unknown") && text.contains("40 ms"), "{text}");
        assert!(measured.unknown("downlink rate", "--downlink-rate").message.contains("--downlink-rate"));
    }
}
