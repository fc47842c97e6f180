//! The two machines between which data goes.

use pendulum_model::segment::Direction;

use crate::topology::Role;

/// The machines at both ends of a transfer or a flow of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Out on the internet.
    pub internet: Role,
    /// Behind the gateway.
    pub home: Role,
}

impl Ends {
    /// Those of the papers: downloads D1 → D2, uploads U2 → U1.
    pub const fn of(direction: Direction) -> Self {
        match direction {
            Direction::Down => Self { internet: Role::D1, home: Role::D2 },
            Direction::Up => Self { internet: Role::U1, home: Role::U2 },
        }
    }

    /// The machine that sends what goes this way.
    pub const fn sender(self, direction: Direction) -> Role {
        match direction {
            Direction::Down => self.internet,
            Direction::Up => self.home,
        }
    }

    /// The machine that receives it.
    pub const fn receiver(self, direction: Direction) -> Role {
        match direction {
            Direction::Down => self.home,
            Direction::Up => self.internet,
        }
    }
}
