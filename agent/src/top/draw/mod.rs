//! What is known, on the screen. Nothing is decided here but what to leave out where there is little room.

mod flows;
mod found;
mod graph;
mod head;
mod help;
mod palette;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

pub(super) use palette::Palette;

use super::view::View;
use pendulum_wire::Link;

/// Below this nothing useful fits.
const SMALLEST: (u16, u16) = (40, 10);
/// Rows of a graph: with fewer it is left out, with more the flows get the room.
const GRAPH: (u16, u16) = (2, 24);
/// Least rows for the flows: a header, some flows, and how many there are.
const FLOWS: u16 = 5;

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, palette: Palette) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let words =
            format!("{}x{} is too small: {}x{}, please", area.width, area.height, SMALLEST.0, SMALLEST.1);
        frame.render_widget(Paragraph::new(words), area);
        return;
    }
    let [title, body, keys] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    frame.render_widget(head::title(view, title.width, palette), title);
    frame.render_widget(head::keys(view, palette), keys);
    if view.help {
        return help::draw(frame, body, palette);
    }
    match (view.link(), &view.trouble) {
        (Some(link), _) => draw_link(frame, body, view, link, palette),
        (None, Some((trouble, since))) => {
            let lines = head::trouble(&view.url, trouble, *since, body.width, palette);
            frame.render_widget(Paragraph::new(lines), body);
        }
        (None, None) => {
            let words = if view.state.is_some() {
                "The agent has no link to show.".to_owned()
            } else {
                format!("Asking {} …", view.url)
            };
            frame.render_widget(Paragraph::new(words), body);
        }
    }
}

fn draw_link(frame: &mut Frame<'_>, area: Rect, view: &View, link: &Link, palette: Palette) {
    let mut lines: Vec<Line<'_>> = Vec::new();
    if let Some((trouble, since)) = &view.trouble {
        lines.extend(head::trouble(&view.url, trouble, *since, area.width, palette));
    }
    lines.extend(head::verdict(link, view.trouble.is_some(), area.width, palette));
    // Reasons and remedies must not push everything else from a small screen.
    let most = usize::from(area.height / 3).max(2);
    if lines.len() > most {
        lines.truncate(most - 1);
        lines.push(Line::from("… a larger window shows the rest").style(palette.faint()));
    }
    let head_rows = lines.len() as u16;
    let figures = head::figures(link, view.redact, area.width, palette);
    let figure_rows = figures.len() as u16;
    let strip_rows = 2;
    // The rest is shared; each graph has a line of text above it.
    let rest = area.height.saturating_sub(head_rows + figure_rows + strip_rows);
    // Rates that are found come with their graphs where there is room for the queues' too.
    let found = found::directions(link).len() as u16;
    let with_graphs = found * found::FULL;
    let found_rows = if rest >= with_graphs + FLOWS + 2 * (GRAPH.0 + 1) { with_graphs } else { found };
    let rest = rest.saturating_sub(found_rows);
    // Few flows leave their room to the graphs; many get half of it.
    let flows = (view.rows().len() as u16).saturating_add(3).clamp(FLOWS, (rest / 2).max(FLOWS));
    let graph = (rest.saturating_sub(flows) / 2).saturating_sub(1).min(GRAPH.1);
    let graph_rows = if graph < GRAPH.0 { 0 } else { graph + 1 };
    let [head, strip, up, down, rates, text, table] = Layout::vertical([
        Constraint::Length(head_rows),
        Constraint::Length(strip_rows),
        Constraint::Length(graph_rows),
        Constraint::Length(graph_rows),
        Constraint::Length(found_rows),
        Constraint::Length(figure_rows),
        Constraint::Fill(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(lines), head);
    let columns = view.series.columns(view.seconds(), usize::from(area.width));
    graph::strip(frame, strip, view, link, &columns, palette);
    graph::uplink(frame, up, link, &columns, palette);
    graph::downlink(frame, down, link, &columns, palette);
    found::draw(frame, rates, link, &columns, view.trouble.is_some(), palette);
    frame.render_widget(Paragraph::new(figures), text);
    flows::draw(frame, table, view, palette);
}

#[cfg(test)]
mod states;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Trouble;
    use crate::top::feed::News;
    use pendulum_wire::{Flow, State};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::style::Modifier;
    use serde_json::json;

    pub(super) fn screen(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen in memory");
        terminal.draw(|frame| draw(frame, view, Palette::new(true))).expect("drawn");
        terminal.backend().to_string()
    }

    pub(super) fn view() -> View {
        let mut view = View::new(&"http://gateway".parse().expect("a URL"), None, false);
        let direction = |throughput: f64, queue: u64| {
            json!({"throughput_1s_bps": throughput, "in_flight_bytes": 29_000, "flows": 1,
                   "rtt": {"min_s": 0.04, "p50_s": 1.2}, "retransmitted_segments": 7,
                   "queue": {"source": "tracepoint", "bytes": queue, "ack_bytes": 300, "limit_bytes": 30_000,
                             "drops": {"overlimit": 12}}})
        };
        let state: State = serde_json::from_value(json!({"version": "1", "links": [{
            "name": "dsl", "wan": "ppp0", "device": "up",
            "link": {"uplink_rate_bps": 196_000, "downlink_rate_bps": 2_400_000},
            "directions": {"up": direction(195_000.0, 29_000), "down": direction(744_000.0, 500)},
            "phase": "uplink_bound", "verdict": "locked_uplink", "verdict_for_s": 34.0,
            "phase_share": {"uplink_bound": 0.9, "downlink_bound": 0.0, "balanced": 0.1, "idle": 0.0},
            "evidence": {"rule": "r", "reason": "the uplink buffer has held a standing queue for 33.1 s", "figures": []}
        }]}))
        .expect("a state");
        view.take(News::State(state));
        for _ in 0..150 {
            view.take(News::Held(0.2));
        }
        view.flows.total = 1;
        view.flows.flows = vec![Flow {
            client: "192.168.1.5:40000".to_owned(),
            server: "203.0.113.9:443".to_owned(),
            direction: "up".into(),
            state: "open".into(),
            ..Flow::default()
        }];
        view
    }

    #[test]
    fn everything_is_there_in_every_size() {
        let mut view = view();
        for (width, height) in [(80, 24), (60, 20), (120, 40), (200, 60)] {
            let shown = screen(&view, width, height);
            for part in
                ["LOCKED", "standing queue", "dsl", "195 kbit/s", "▲▲▲▲", "203.0.113.9", "1.20 s", "q leave"]
            {
                assert!(shown.contains(part), "{part} at {width}x{height} in\n{shown}");
            }
        }
        view.redact = true;
        let hidden = screen(&view, 80, 24);
        assert!(!hidden.contains("192.168.1.5") && hidden.contains("192.168.x.x"), "{hidden}");
    }

    #[test]
    fn where_the_delay_is_has_a_row_in_which_unknown_is_not_zero() {
        let mut view = view();
        assert!(!screen(&view, 120, 40).contains("delay "));
        let known = |base_s, queue_s| json!({"base_s": base_s, "queue_s": queue_s, "uncertainty_s": 0.01});
        let unknown = json!({"base_s": null, "queue_s": null, "uncertainty_s": null, "unknown": "one_end"});
        let delay = json!({"place": "home", "queue_s": 0.31, "segments": {"home": known(0.001, 0.31),
            "gateway": known(0.0, 0.0), "uplink": unknown, "downlink": unknown, "beyond": known(0.02, 0.0)}});
        let link = &mut view.state.as_mut().expect("known").links[0];
        link.delay = serde_json::from_value(delay).expect("a delay");
        let shown = screen(&view, 120, 40);
        let row = "delay !home 311 ms  gateway 0.0 ms  uplink unknown  downlink unknown  beyond 20 ms";
        assert!(shown.contains(row), "{shown}");
        assert!(screen(&view, 60, 20).contains("!home 311 ms"));
        let link = &mut view.state.as_mut().expect("known").links[0];
        let segments = &mut link.delay.as_mut().expect("known").segments;
        segments.get_mut("home").expect("known").host = Some("192.168.1.7".into());
        assert!(screen(&view, 120, 40).contains("!home 311 ms at 192.168.1.7  gateway"));
        view.redact = true;
        assert!(screen(&view, 120, 40).contains("!home 311 ms at 192.168.x.x  gateway"));
    }

    /// A QUIC upload in the modem's buffer; of the downlink's nothing is known.
    #[test]
    fn a_buffer_out_of_sight_has_a_band_a_cause_and_no_zero() {
        let mut view = view();
        let queue = json!({"source": "estimate", "bytes": 24_000, "uncertainty_bytes": 2_000.0, "drops": {},
                           "composition": {"tcp_data": 0.125, "ack": 0.003, "udp": 0.872, "other": 0.0},
                           "top_port": {"name": "UDP port 443", "share": 0.87}});
        let state = json!({"version": "1", "links": [{
            "name": "dsl", "wan": "ppp0", "vantage": "before_uplink_buffer", "verdict": "unknown", "verdict_for_s": 5.0,
            "directions": {"up": {"queue": queue}, "down": {"queue": {"source": "estimate", "bytes": null}}},
            "evidence": {"reason": "both buffers are out of sight", "missing": ["base_round_trip", "uplink_rate"]},
            "bufferbloat": {"up": {"delay_s": 0.35, "cause": {"kind": "udp", "share": 0.87}, "help": "shape it"}}
        }]});
        view.take(News::State(serde_json::from_value(state.clone()).expect("a state")));
        let shown = screen(&view, 120, 40);
        for part in [
            "about 24.0 kB ± 2.0 kB (estimate, in the modem), full height 29.0 kB, 87 % UDP port 443",
            "unknown (estimate, at the provider)",
            "UNKNOWN",
            "missing evidence: base round trip, uplink rate",
            "all traffic waits 350 ms, 87 % UDP of the traffic in it; shape it",
        ] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        for part in [" 0 B (", "0 dropped", "ACKs"] {
            assert!(!shown.contains(part), "{part} in\n{shown}");
        }
        // A port that accounts for a part of its kind only is not named for all of it, and an exact level has no band.
        let mut exact = state;
        let queue = &mut exact["links"][0]["directions"]["up"]["queue"];
        (queue["source"], queue["uncertainty_bytes"]) = ("tracepoint".into(), 0.0.into());
        queue["top_port"]["share"] = 0.5.into();
        view.take(News::State(serde_json::from_value(exact).expect("a state")));
        let shown = screen(&view, 120, 40);
        assert!(shown.contains("queue  24.0 kB (tracepoint), full height 29.0 kB, 87 % UDP"), "{shown}");
    }

    /// At three in the morning: what is old says so, nothing is cut in the middle, and a large screen is used.
    #[test]
    fn what_is_old_says_so_and_no_line_is_cut() {
        let mut view = view();
        let shares = |view: &mut View| {
            let link = &mut view.state.as_mut().expect("known").links[0];
            link.horizon_s = Some(60.0);
        };
        shares(&mut view);
        let shown = screen(&view, 80, 24);
        // The period of the shares is not that of the strip.
        assert!(shown.contains("phase 30 s, shares 60 s: ▲ uplink 90 %"), "{shown}");
        assert!(shown.contains("· neither 0 %"), "{shown}");
        assert!(shown.contains("[up]") && !shown.contains("↓up"), "{shown}");
        assert!(!shown.contains("Last known"), "{shown}");
        let trouble = Trouble { reason: "refused".to_owned(), remedy: "start it.", unknown_path: false };
        view.take(News::Trouble(trouble));
        for (width, height) in [(80, 24), (160, 50)] {
            let shown = screen(&view, width, height);
            assert!(shown.contains("NO ANSWER") && shown.contains("Last known: LOCKED UPLINK"), "{shown}");
        }
        // One flow: the graphs have the room, not an empty table.
        let shown = screen(&view, 160, 50);
        let below = shown.lines().skip_while(|line| !line.contains("flows 1–1 of 1")).skip(1);
        let empty = below.filter(|line| line.trim_matches(['"', ' ']).is_empty()).count();
        assert!(empty <= 3, "{empty} rows are left empty\n{shown}");
    }

    /// The uplink's rate is found and falls; nothing of it is on the screen of a link whose rate was configured.
    #[test]
    fn a_rate_that_is_found_has_its_reasons_beside_it() {
        let mut view = view();
        assert!(!screen(&view, 120, 40).contains("automatic rate"));
        let shape = json!({"state": "enforcing", "downlink": {"rate_bps": 2_000_000, "auto": null}, "uplink": {"rate_bps": 190_000, "auto": {
            "decision": "lower", "reason": "packets wait behind the shaper", "waits_behind_s": 0.035}}});
        let show = |view: &mut View, shape: &serde_json::Value| {
            view.state.as_mut().expect("known").links[0].shape =
                serde_json::from_value(shape.clone()).expect("a shaper");
        };
        show(&mut view, &shape);
        let tick = |tenths: u32, auto: serde_json::Value| {
            let half = json!({"queue_bytes": vec![500.0; 10], "auto": auto});
            serde_json::from_value(
                json!({"at_s": f64::from(tenths) / 10.0, "step_s": 0.01, "up": half, "down": {}}),
            )
            .expect("a tick")
        };
        for tenths in 1..=100 {
            let auto = match tenths {
                50..60 => json!({"rate_bps": 20_000, "waits_behind_s": 0.2, "decision": "drain"}),
                60..80 => json!(null),
                80.. => json!({"rate_bps": 190_000, "waits_behind_s": null, "decision": "hold"}),
                _ => json!({"rate_bps": 200_000, "waits_behind_s": 0.0, "decision": "hold"}),
            };
            view.take(News::Tick(tick(tenths, auto)));
        }
        let shown = screen(&view, 120, 40);
        let rows: Vec<Vec<char>> =
            shown.lines().map(|line| line.trim_matches('"').chars().collect()).collect();
        let words = rows
            .iter()
            .position(|row| row.iter().collect::<String>().contains("▲ automatic rate"))
            .expect("said");
        let said: String = rows[words].iter().collect();
        assert!(
            said.contains("sent at 190 kbit/s, 35 ms wait behind; lower: packets wait behind the shaper"),
            "{said}"
        );
        assert!(!shown.contains("▼ automatic rate"), "{shown}");
        // A column is a quarter of a second, and the same for rate, wait and decision.
        let at = |tenth: usize, row: usize| rows[words + row][119 - (100 - tenth) * 2 / 5];
        let columns = |tenth| [1, 2, 3].map(|row| at(tenth, row));
        assert_eq!(columns(30), ['█', '▁', '─'], "{shown}");
        assert_eq!(columns(55), ['▁', '█', '⇓'], "{shown}");
        assert_eq!(columns(70), ['·', '·', ' '], "not shaped: a gap\n{shown}");
        assert_eq!(columns(95), ['█', '·', '─'], "an unknown wait is no zero\n{shown}");

        // Its graphs do not take the room of the queues'.
        for height in 20..60 {
            let shown = screen(&view, 120, height);
            let has_graphs = shown.contains('⇓');
            assert_eq!(has_graphs, height >= 24, "{height}\n{shown}");
            assert!(!has_graphs || shown.contains("uplink queue"), "{height}\n{shown}");
        }

        // A small screen keeps the words, an agent that is gone says nothing of the present, a turn without shaping has no rate.
        assert!(screen(&view, 80, 24).contains("▲ automatic rate  sent at 190 kbit/s"));
        let mut observing = shape;
        observing["state"] = "observing".into();
        show(&mut view, &observing);
        assert!(screen(&view, 120, 40).contains("▲ automatic rate  the link is not being shaped"));
        let trouble = Trouble { reason: "refused".to_owned(), remedy: "start it.", unknown_path: false };
        view.take(News::Trouble(trouble));
        let shown = screen(&view, 120, 40);
        assert!(
            shown.contains("▲ automatic rate  unknown: no answer") && !shown.contains("190 kbit/s,"),
            "{shown}"
        );
    }

    #[test]
    fn a_full_queue_fills_its_graph() {
        let shown = screen(&view(), 80, 30);
        let full = shown.lines().filter(|line| line.matches('█').count() > 70).count();
        assert!(full >= 3, "{shown}");
    }

    /// On a terminal without colours too.
    #[test]
    fn names_stand_out_from_figures() {
        let mut view = view();
        view.typing = true;
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).expect("a screen in memory");
        terminal.draw(|frame| draw(frame, &view, Palette::new(false))).expect("drawn");
        let buffer = terminal.backend().buffer();
        let is_bold = |words: &str| {
            let cells = buffer.content().chunks(120).find_map(|row| {
                let row_words: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
                let at = row_words.find(words)?;
                Some(&row[row_words[..at].chars().count()])
            });
            cells.unwrap_or_else(|| panic!("no {words}")).modifier.contains(Modifier::BOLD)
        };
        for name in ["LOCKED", "phase 30 s", "uplink queue", "downlink queue", "Enter keeps it"] {
            assert!(is_bold(name), "{name}");
        }
        for figure in ["the uplink buffer has held", "29.0 kB", "internet RTT"] {
            assert!(!is_bold(figure), "{figure}");
        }
    }

    #[test]
    fn no_size_is_too_small_to_say_so() {
        let view = view();
        for width in [1, 2, 5, 20, 39, 40, 41, 55, 90] {
            for height in 1..=26 {
                screen(&view, width, height);
            }
        }
        for (width, height, too_small) in [(39, 10, true), (40, 9, true), (40, 10, false)] {
            assert_eq!(screen(&view, width, height).contains("too small"), too_small, "{width}x{height}");
        }
    }

    #[test]
    fn help_names_every_key() {
        let mut view = view();
        view.help = true;
        let shown = screen(&view, 80, 24);
        for (key, action) in crate::top::keys::KEYS {
            assert!(
                shown.contains(key) && shown.contains(&action[..action.len().min(20)]),
                "{key} in\n{shown}"
            );
        }
    }
}
