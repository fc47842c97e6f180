//! Lists of names as JSON schemas, where programs need to know all of them.

use std::borrow::Cow;

use pendulum_model::autorate::Decision;
use pendulum_model::degree::Severity;
use pendulum_model::findings::{Phase, Verdict};
use pendulum_model::segment;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// One value for each direction.
#[derive(JsonSchema)]
#[schemars(inline)]
pub struct Both<T> {
    /// Through the WAN device.
    pub up: T,
    /// From it.
    pub down: T,
}

/// A type that is a list of names.
macro_rules! names {
    ($(#[$meta:meta])* $name:ident, $all:expr) => {
        $(#[$meta])*
        pub struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": $all })
            }
        }
    };
}

names!(
    /// A phase.
    PhaseName,
    Phase::ALL.map(Phase::name)
);
names!(
    /// A verdict.
    VerdictName,
    Verdict::ALL.map(Verdict::name)
);
names!(
    /// A severity.
    SeverityName,
    Severity::ALL.map(Severity::name)
);
names!(
    /// A decision of the search for a rate.
    DecisionName,
    Decision::ALL.map(Decision::name)
);
names!(
    /// A direction.
    DirectionName,
    segment::Direction::ALL.map(segment::Direction::name)
);
