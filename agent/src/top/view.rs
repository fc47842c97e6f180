//! What is known of the agent, and what the user chose to see of it.

use std::time::Instant;

use pendulum_model::findings::Phase;
use pendulum_model::segment::PerDirection;

use crate::client::{AgentUrl, Trouble};

use super::feed::{News, Wish};
use super::flows::{self, FlowLine, Sort};
use super::found::Moment;
use super::series::{PointRing, QueuedBytes};
use pendulum_wire::{Flows, Link, Queue, State};

/// Seconds that the graphs can show.
const WINDOWS: [f64; 5] = [5.0, 10.0, 30.0, 60.0, PointRing::SPAN];

/// Everything that can be on the screen.
#[derive(Debug)]
pub(super) struct View {
    pub(super) url: String,
    /// `None` until the first answer.
    pub(super) state: Option<State>,
    pub(super) flows: Flows,
    pub(super) series: PointRing,
    /// Why the figures are old, and since when.
    pub(super) trouble: Option<(Trouble, Instant)>,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) typing: bool,
    pub(super) sort: Sort,
    pub(super) redact: bool,
    pub(super) help: bool,
    /// Flows above the first that is shown.
    pub(super) scroll: usize,
    pub(super) quit: bool,
    link: Option<String>,
    window: usize,
}

impl View {
    pub(super) fn new(url: &AgentUrl, link: Option<String>, redact: bool) -> Self {
        Self {
            url: url.to_string(),
            state: None,
            flows: Flows::default(),
            series: PointRing::default(),
            trouble: None,
            filter: String::new(),
            typing: false,
            sort: Sort::default(),
            redact,
            help: false,
            scroll: 0,
            quit: false,
            link,
            window: 2,
        }
    }

    pub(super) fn wish(&self) -> Wish {
        Wish { link: self.link.clone(), by_bytes: self.sort == Sort::Bytes }
    }

    /// Seconds in the graphs.
    pub(super) fn seconds(&self) -> f64 {
        WINDOWS[self.window]
    }

    /// Shows a shorter or longer time.
    pub(super) fn zoom(&mut self, longer: bool) {
        self.window =
            if longer { (self.window + 1).min(WINDOWS.len() - 1) } else { self.window.saturating_sub(1) };
    }

    /// All links of the agent.
    pub(super) fn links(&self) -> &[Link] {
        self.state.as_ref().map_or(&[], |state| &state.links)
    }

    /// The index of the link that is shown: the one chosen, while it is there, or the first.
    pub(super) fn shown(&self) -> usize {
        let chosen = self.links().iter().position(|link| Some(&link.name) == self.link.as_ref());
        chosen.unwrap_or(0)
    }

    /// The link that is shown.
    pub(super) fn link(&self) -> Option<&Link> {
        self.links().get(self.shown())
    }

    /// Goes to the next or the previous link.
    pub(super) fn turn(&mut self, forward: bool) {
        let count = self.links().len();
        if count < 2 {
            return;
        }
        let step = if forward { 1 } else { count - 1 };
        let next = (self.shown() + step) % count;
        self.link = self.links().get(next).map(|link| link.name.clone());
        self.series = PointRing::default();
        self.flows = Flows::default();
        self.scroll = 0;
    }

    /// Takes in what came.
    pub(super) fn take(&mut self, news: News) {
        match news {
            News::Trouble(trouble) => {
                // The clock runs from the first failure.
                let since = self.trouble.as_ref().map_or_else(Instant::now, |(_, since)| *since);
                self.trouble = Some((trouble, since));
                return;
            }
            News::State(state) => self.state = Some(state),
            News::Link(link) => {
                if let Some(place) =
                    self.state.as_mut().and_then(|state| state.links.iter_mut().find(|l| l.name == link.name))
                {
                    *place = *link;
                }
            }
            News::History(steps) => self.series.remember(&steps.steps),
            News::Tick(tick) => self.series.tick(&tick),
            News::Held(seconds) => self.hold(seconds),
            News::Flows(flows) => self.flows = flows,
            News::Stopped => self.quit = true,
        }
        self.trouble = None;
    }

    fn hold(&mut self, seconds: f64) {
        let Some(link) = self.link() else { return };
        let level = |queue: &Option<Queue>| {
            let queue = queue.as_ref()?;
            let (total, ack) = (queue.bytes? as f32, queue.ack_bytes.unwrap_or(0) as f32);
            Some(QueuedBytes { data: total - ack, ack })
        };
        let (up, down) = (level(&link.directions.up.queue), level(&link.directions.down.queue));
        let phase = link.phase.as_deref().and_then(Phase::named);
        let found = PerDirection::from_fn(|x| Moment::of_state(link, x));
        self.series.hold(seconds, up, down, phase, found);
    }

    /// The flows as they are to be shown.
    pub(super) fn rows(&self) -> Vec<FlowLine<'_>> {
        flows::rows(&self.flows.flows, self.sort, &self.filter, self.redact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_of_a_link_changes_that_link_alone() {
        let named = |name: &str, verdict: &str| -> Link {
            serde_json::from_value(serde_json::json!({"name": name, "verdict": verdict})).expect("a link")
        };
        let mut view = View::new(&"http://gateway".parse().expect("a URL"), None, false);
        let links = vec![named("dsl", "clear"), named("lte", "clear")];
        view.take(News::State(State { links, ..State::default() }));
        for link in [named("lte", "swinging"), named("another", "balanced")] {
            view.take(News::Link(Box::new(link)));
        }
        let verdicts: Vec<_> =
            view.links().iter().map(|link| (&*link.name, link.verdict.as_deref())).collect();
        assert_eq!(verdicts, [("dsl", Some("clear")), ("lte", Some("swinging"))]);
    }
}
