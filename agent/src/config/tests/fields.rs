//! The keys that a part of the file can have, as `serde` knows them.

use pendulum_model::thresholds::Thresholds;
use serde::Deserialize;
use serde::de::{self, Visitor};

use super::super::raw;

/// Asks a type for its fields instead of giving it any.
#[derive(Default)]
struct Fields(Vec<&'static str>);

impl<'de> de::Deserializer<'de> for &mut Fields {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("only structures have keys"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0 = fields.to_vec();
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn of<T: for<'de> Deserialize<'de>>() -> Vec<&'static str> {
    let mut fields = Fields::default();
    // The type cannot be made of nothing; it has named its fields by then.
    assert!(T::deserialize(&mut fields).is_err() && !fields.0.is_empty());
    fields.0
}

/// Every key of the file, with its table: `shape.rate-percent`.
pub(super) fn all() -> Vec<String> {
    let tables = of::<raw::File>().into_iter().flat_map(|table| {
        let keys = match table {
            "listen" => return vec![table.to_owned()],
            "http" => of::<raw::HttpTable>(),
            "link" => of::<raw::LinkTable>(),
            "flows" => of::<raw::FlowsTable>(),
            "detector" => of::<Thresholds>(),
            "events" => of::<raw::EventsTable>(),
            "log" => of::<raw::LogTable>(),
            "metrics" => of::<raw::MetricsTable>(),
            "privileges" => of::<raw::PrivilegesTable>(),
            "shape" => of::<raw::ShapeTable>(),
            unknown => panic!("the table of keys does not know what `{unknown}` holds"),
        };
        keys.into_iter().map(|key| format!("{table}.{key}")).collect()
    });
    tables.collect()
}
