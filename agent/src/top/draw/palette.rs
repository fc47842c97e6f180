//! Colours, and what stands in for them.

use ratatui::style::{Color, Modifier, Style};

use crate::top::series::Phase;

/// The colours of the page and the demo: blue for the uplink, orange for the downlink, told apart by colour-blind people too.
/// Shape or words say the same where there is no colour.
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
        self.ink(33)
    }

    pub(super) fn up_ack(self) -> Style {
        self.ink(153)
    }

    pub(super) fn down(self) -> Style {
        self.ink(208)
    }

    pub(super) fn down_ack(self) -> Style {
        self.ink(223)
    }

    pub(super) fn phase(self, phase: Phase) -> Style {
        match phase {
            Phase::UplinkBound => self.up(),
            Phase::DownlinkBound => self.down(),
            Phase::Balanced => self.ink(248),
            Phase::Idle => self.ink(242),
        }
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
