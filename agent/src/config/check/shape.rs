//! `[shape]`: from the file as written to what can be trusted.

use pendulum_model::rate::{Rate, Span};
use pendulum_model::segment::PerDirection;
use toml::Spanned;

use super::super::bounds::Bounds;
use super::super::cake::CakeOptions;
use super::super::error::{ConfigError, SourceText};
use super::super::framing::{Framing, Preset};
use super::super::raw;
use super::super::shape::{
    AB_TEST, AckFilter, DOWNLINK_PERCENT, LEAST_RATE, MPU, OVERHEAD, PERCENT, RateBounds, ShapeConfig,
    ShapeRate,
};

pub(super) fn check(source: &SourceText<'_>, raw: raw::ShapeTable) -> Result<ShapeConfig, ConfigError> {
    let ab_test = match raw.ab_test {
        None => None,
        Some(span) => {
            let bounds = Bounds {
                least: Span(AB_TEST.least),
                most: Span(AB_TEST.most),
                default: Span(AB_TEST.default),
            };
            if !raw.mode.acts() {
                return Err(source.invalid(
                    span.span(),
                    "ab-test compares only while shaping is enforced",
                    "write mode = \"enforce\", or leave ab-test out",
                ));
            }
            Some(source.within(*span.get_ref(), &bounds, span.span())?.0)
        }
    };
    let framing = raw.preset.map(Preset::framing);
    let overhead = raw.overhead.map(|it| source.within(*it.get_ref(), &OVERHEAD, it.span())).transpose()?;
    let mpu = raw.mpu.map(|it| source.within(*it.get_ref(), &MPU, it.span())).transpose()?;
    let layer = raw.link_layer;
    // Cells and least sizes are of the whole packet: without a word on its overhead it has none beside IP.
    let is_framed = framing.is_some() || overhead.is_some() || mpu.is_some() || layer.is_some();
    let base = framing.unwrap_or_default();
    let bounds = PerDirection {
        up: rate_bounds(source, raw.rate, [raw.minimum_uplink_rate, raw.maximum_uplink_rate])?,
        down: rate_bounds(source, raw.rate, [raw.minimum_downlink_rate, raw.maximum_downlink_rate])?,
    };
    if raw.rate == ShapeRate::Auto
        && let Some(percent) = raw.rate_percent.as_ref().or(raw.downlink_rate_percent.as_ref())
    {
        let reason = "an automatic rate follows the queue behind the shaper, so a share of it has no meaning";
        return Err(source.invalid(percent.span(), reason, "leave it out, or leave rate = \"auto\" out"));
    }
    let priority = raw.priority.as_ref().map(|it| (it.span(), "priority"));
    let probe = raw.probe.as_ref().map(|it| (it.span(), "probe"));
    if raw.rate == ShapeRate::Configured
        && let Some((span, key)) = priority.or(probe)
    {
        let reason = format!("{key} applies only with rate = \"auto\"");
        return Err(source.invalid(span, reason, "write rate = \"auto\" below [shape], or leave it out"));
    }
    Ok(ShapeConfig {
        mode: raw.mode,
        rate: raw.rate,
        priority: raw.priority.map(Spanned::into_inner).unwrap_or_default(),
        probe: raw.probe.map(Spanned::into_inner).unwrap_or_default(),
        bounds,
        rate_percent: source.number(raw.rate_percent, &PERCENT)?,
        downlink: raw.downlink.unwrap_or(false),
        downlink_rate_percent: source.number(raw.downlink_rate_percent, &DOWNLINK_PERCENT)?,
        ack_filter: raw.ack_filter,
        delta: raw.delta,
        ab_test,
        framing: Framing {
            overhead: overhead.or(base.overhead).or(is_framed.then_some(OVERHEAD.default)),
            mpu: mpu.unwrap_or(base.mpu),
            layer: layer.unwrap_or(base.layer),
        },
        cake: raw.cake.map_or(Ok(CakeOptions::default()), |words| cake(source, &words, raw.ack_filter))?,
    })
}

/// In order, not below what the shaper takes, and only where a rate is found.
fn rate_bounds(
    source: &SourceText<'_>,
    rate: ShapeRate,
    [least, most]: [Option<Spanned<Rate>>; 2],
) -> Result<RateBounds, ConfigError> {
    for bound in [&least, &most].into_iter().flatten() {
        if rate == ShapeRate::Configured {
            let reason = "minimum and maximum apply only with rate = \"auto\"";
            return Err(source.invalid(
                bound.span(),
                reason,
                "write rate = \"auto\" below [shape], or leave it out",
            ));
        }
        if bound.get_ref().bits_per_second() < LEAST_RATE {
            let reason =
                format!("{} is too slow: a full packet would take a fifth of a second", bound.get_ref());
            return Err(source.invalid(bound.span(), reason, "write 64kbit or more"));
        }
    }
    if let (Some(least), Some(most)) = (&least, &most)
        && least.get_ref() > most.get_ref()
    {
        let reason = format!("{} is more than the maximum, {}", least.get_ref(), most.get_ref());
        return Err(source.invalid(
            least.span(),
            reason,
            "write a minimum below the maximum, or leave one of them out",
        ));
    }
    let rate = |bound: Option<Spanned<Rate>>| bound.map(Spanned::into_inner);
    Ok(RateBounds { least: rate(least), most: rate(most) })
}

fn cake(
    source: &SourceText<'_>,
    words: &Spanned<String>,
    ack_filter: AckFilter,
) -> Result<CakeOptions, ConfigError> {
    let options = CakeOptions::parse(words.get_ref()).map_err(|misfit| {
        // Where the text stands in the file as it is meant, without escapes.
        let written = &source.text[words.span()];
        let start = words.span().start + written.find(words.get_ref().as_str()).unwrap_or(0);
        let at = start + misfit.at.start;
        let column = source.column(at);
        source.invalid(
            at..start + misfit.at.end,
            format!("{} (column {column})", misfit.reason),
            misfit.remedy,
        )
    })?;
    if !matches!(ack_filter, AckFilter::Auto | AckFilter::Off) && !options.isolation.separates_connections() {
        return Err(source.invalid(
            words.span(),
            "several connections share a queue, where cake drops ACKs: the ACK filter would lose up to 32 others with each of these",
            "write ack-filter = \"auto\" or \"off\", or an isolation with a queue for each connection, such as dual-srchost or flows",
        ));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Config;

    #[test]
    fn the_ack_filter_wants_a_queue_for_each_connection() {
        let check = |isolation: &str, filter: &str| {
            let text = format!(
                "[[link]]\nwan = \"a\"\n[shape]\nmode = \"enforce\"\ncake = \"{isolation}\"\n{filter}"
            );
            Config::parse(&text, Path::new("x")).map(|_| ()).map_err(|error| error.to_string())
        };
        for isolation in ["flowblind", "srchost", "dsthost", "hosts"] {
            let error = check(isolation, "ack-filter = \"delayed\"").expect_err(isolation);
            assert!(error.contains("share a queue") && error.contains("\"auto\" or \"off\""), "{error}");
            assert!(check(isolation, "ack-filter = \"static\"").is_err(), "{isolation}");
            assert_eq!(check(isolation, "ack-filter = \"off\""), Ok(()), "{isolation}");
            // cake's own filter looks at connections, whatever queue they are in.
            assert_eq!(check(isolation, ""), Ok(()), "{isolation}");
        }
        for isolation in ["flows", "dual-srchost", "dual-dsthost", "triple-isolate", ""] {
            assert_eq!(check(isolation, ""), Ok(()), "{isolation}");
        }
    }
}
