//! Enumerations whose values have names, each written once.

use std::borrow::Cow;

/// A name from a list that may grow: a reader may meet one that it does not know. The agent's own names cost nothing to send.
pub type Name = Cow<'static, str>;

/// Declares one by `Value = "name"`: its values in order as `ALL`, `name`, `named`, and JSON by name.
#[macro_export]
macro_rules! named {
    ($(#[$attribute:meta])* $visible:vis enum $kind:ident { $($(#[$note:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visible enum $kind {
            $($(#[$note])* $value,)+
        }

        impl $kind {
            /// All of them, in index order.
            $visible const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// The name in JSON, metrics and files.
            $visible const fn name(self) -> &'static str {
                [$($name),+][self as usize]
            }

            /// The value of this name; `None` if there is none, as of a newer version.
            $visible fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }

        impl ::serde::Serialize for $kind {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $kind {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                let unknown = || ::serde::de::Error::unknown_variant(&name, &[$($name),+]);
                Self::named(&name).ok_or_else(unknown)
            }
        }
    };
}
