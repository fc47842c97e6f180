//! Colours, and what stands in for them.

use pendulum_model::autorate::Decision;
use pendulum_model::colour::{of_decision, of_direction, of_phase, of_verdict};
use pendulum_model::findings::{Phase, Verdict};
use pendulum_model::segment::Direction;
use ratatui::style::{Color, Modifier, Style};

/// The colours that everything of the project has. Shape or words say the same where there is no colour.
#[derive(Clone, Copy, Debug)]
pub(in crate::top) struct Palette {
    coloured: bool,
}

impl Palette {
    pub(in crate::top) fn new(coloured: bool) -> Self {
        Self { coloured }
    }

    fn ink(self, colour: u8) -> Style {
        if self.coloured { Style::new().fg(Color::Indexed(colour)) } else { Style::new() }
    }

    /// Is there colour at all?
    pub(super) fn coloured(self) -> bool {
        self.coloured
    }

    /// Data in the uplink buffer, and what belongs to the uplink.
    pub(super) fn up(self) -> Style {
        self.ink(of_direction(Direction::Up).xterm)
    }

    /// Pure ACKs in the uplink buffer: paler than its data.
    pub(super) fn up_ack(self) -> Style {
        self.ink(223)
    }

    pub(super) fn down(self) -> Style {
        self.ink(of_direction(Direction::Down).xterm)
    }

    pub(super) fn down_ack(self) -> Style {
        self.ink(153)
    }

    pub(super) fn phase(self, phase: Phase) -> Style {
        self.ink(of_phase(phase).xterm)
    }

    pub(super) fn decision(self, decision: Decision) -> Style {
        self.ink(of_decision(decision).xterm)
    }

    /// The verdict's own colour; trouble is bold.
    pub(super) fn verdict(self, name: &str, wrong: bool) -> Style {
        let known = Verdict::named(name);
        let style = known.map_or(Style::new(), |verdict| self.ink(of_verdict(verdict).xterm));
        if wrong { style.add_modifier(Modifier::BOLD) } else { style }
    }

    /// What should not be overlooked.
    pub(super) fn alarm(self) -> Style {
        self.ink(220).add_modifier(Modifier::BOLD)
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        self.ink(244)
    }

    /// The title and the table's header.
    pub(super) fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
