//! What the demo says before and after: what is shown, on what, where to look.

use std::net::SocketAddr;
use std::time::Duration;

use pendulum_model::segment::Direction;

use super::format;
use super::style::{self, Glyphs, StyledLine, Tone};
use crate::lab::LinkSpec;

/// What is shown and why, the link, and how long it takes.
pub(super) fn what(total: Duration, link: &LinkSpec, glyphs: &Glyphs, columns: usize) -> Vec<StyledLine> {
    let (down, up) = (link.downlink, link.uplink);
    let rate = |rate: pendulum_model::rate::Rate| format::rate(rate.bits_per_second() as f64);
    let text =
        |text: &str| style::wrap(text, columns - 1).into_iter().map(StyledLine::plain).collect::<Vec<_>>();
    let mut lines = vec![
        StyledLine::new().with(Tone::Strong, "Why does a download collapse while something is uploaded?"),
        StyledLine::new(),
    ];
    lines.extend(text(
        "A download runs over a link with a slow uplink, first alone, then beside one upload and two. Its ACKs have to pass the \
         uplink's buffer, behind the data of the upload; the pendulum agent on the gateway shows where the bytes wait. It happens \
         on every DSL, cable, LTE or satellite link with a generous buffer.",
    ));
    lines.extend([
        StyledLine::new(),
        StyledLine::plain("                     ").with(
            Tone::Of(Direction::Down),
            format!(
                "{} {}, {} B",
                glyphs.arrow(Direction::Down),
                rate(down.rate),
                format::grouped(down.buffer_bytes())
            ),
        ),
        StyledLine::plain("  internet -- provider ====================== gateway -- home"),
        StyledLine::plain("                     ")
            .with(
                Tone::Of(Direction::Up),
                format!(
                    "{:<25}",
                    format!(
                        "{} {}, {} B",
                        glyphs.arrow(Direction::Up),
                        rate(up.rate),
                        format::grouped(up.buffer_bytes())
                    )
                ),
            )
            .with(Tone::Strong, "pendulum"),
        StyledLine::new(),
    ]);
    lines.extend(text(&format!(
        "The link is built from network namespaces on this machine; the traffic is iperf3 over this kernel's TCP (reno). It takes \
         {:.0} seconds; on a terminal `pendulum top` shows the agent meanwhile. q or Ctrl-C ends it at any time; nothing is left behind.",
        total.as_secs_f64()
    )));
    lines.push(StyledLine::new());
    lines
}

/// Where to look meanwhile. `in_place_of`: the address that was taken; `prometheus`: where it is, if there is one.
pub(super) fn addresses(
    url: &str,
    in_place_of: Option<SocketAddr>,
    prometheus: Option<SocketAddr>,
) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    if let Some(taken) = in_place_of {
        lines.push(StyledLine::plain(format!("({taken} is in use, so another port was taken.)")));
    }
    for (what, path) in [("page", ""), ("metrics", "metrics"), ("state", "api/v1/state")] {
        lines.push(
            StyledLine::new()
                .with(Tone::Faint, format!("  {what:<9}"))
                .with(Tone::Plain, format!("{url}{path}")),
        );
    }
    if let Some(address) = prometheus {
        let alerts = StyledLine::new().with(Tone::Faint, format!("  {:<9}", "alerts"));
        lines.push(alerts.with(Tone::Plain, format!("http://{address}/alerts")));
    }
    lines.push(StyledLine::new());
    lines
}

/// How to read the table.
pub(super) fn notes() -> [String; 2] {
    [
        "Kernel: payload, round trip, outstanding data and retransmissions as the senders' sockets count them (ss), queues as tc \
         shows them ten times a second. Agent: what it read on the gateway.  Each figure covers the last two thirds of its stretch."
            .to_owned(),
        "Of a download the agent sees as outstanding only what is between the gateway and the home: the rest waits in the \
         buffers behind it. It times data segments, so it knows the round trip to the internet only while something is uploaded."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::style::Palette;

    #[test]
    fn the_introduction_names_the_link_and_fits_the_width() {
        for columns in [60, 80, 100] {
            let lines = what(Duration::from_secs(85), &LinkSpec::FIG1, &Glyphs::UNICODE, columns);
            let text: String = lines.iter().map(|line| line.render(Palette::Monochrome) + "\n").collect();
            for part in ["2.40 Mb/s, 30,000 B", "196 kb/s, 30,000 B", "85 seconds"] {
                assert!(text.replace('\n', " ").contains(part), "{part} in {text}");
            }
            assert!(lines.iter().all(|line| line.width() <= columns.max(61)), "{text}");
        }
    }

    #[test]
    fn a_taken_address_is_named() {
        let lines = addresses("http://127.0.0.1:9925/", Some(([127, 0, 0, 1], 9924).into()), None);
        let text: String = lines.iter().map(|line| line.render(Palette::Monochrome) + "\n").collect();
        assert!(
            text.contains("127.0.0.1:9924 is in use") && text.contains("http://127.0.0.1:9925/metrics"),
            "{text}"
        );
    }
}
