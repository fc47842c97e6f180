//! The page's types and the documentation's tables of what the agent sends, from the JSON schemas of `pendulum_wire`.

use std::fmt::Write as _;

use pendulum_wire as wire;
use pendulum_wire::schema::{DecisionName, DirectionName, PhaseName, VerdictName};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::Value;

use super::hold;

/// Everything that is sent, as JSON schemas by name, in this order: what a path answers, and after it what it is made of.
fn schemas() -> Vec<(String, Value)> {
    let mut generator = SchemaGenerator::from(SchemaSettings::draft2020_12().for_serialize());
    let mut roots: Vec<String> = Vec::new();
    macro_rules! roots {
        ($($root:ty),*) => {$(
            let schema = generator.subschema_for::<$root>();
            roots.extend(schema.get("$ref").and_then(Value::as_str).map(name_in));
        )*};
    }
    roots!(
        wire::State,
        wire::Events,
        wire::History,
        wire::Incidents,
        wire::Tick,
        wire::Dropped,
        wire::Flows,
        wire::Refused,
        DirectionName,
        PhaseName,
        VerdictName,
        DecisionName
    );
    let definitions = generator.definitions();
    let mut ordered: Vec<(String, Value)> = Vec::new();
    for root in roots {
        visit(&root, definitions, &mut ordered);
    }
    assert_eq!(ordered.len(), definitions.len(), "every definition is reached");
    ordered
}

/// A definition, and after it those that it refers to, each once.
fn visit(name: &str, definitions: &serde_json::Map<String, Value>, ordered: &mut Vec<(String, Value)>) {
    if ordered.iter().any(|(known, _)| known == name) {
        return;
    }
    let schema = &definitions[name];
    ordered.push((name.to_owned(), schema.clone()));
    let mut referred = Vec::new();
    references(schema, &mut referred);
    for name in referred {
        visit(&name, definitions, ordered);
    }
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(name_in));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
        _ => {}
    }
}

fn name_in(reference: &str) -> String {
    reference.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A type's fields: name, schema, whether it may be absent. In the order of the definition, as the list of those that are always
/// there has it; the others come last.
fn fields(schema: &Value) -> Vec<(&String, &Value, bool)> {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let place = |name: &String| required.iter().position(|known| known == name).unwrap_or(usize::MAX);
    let members = schema["properties"].as_object().into_iter().flatten();
    let mut fields: Vec<_> =
        members.map(|(name, schema)| (name, schema, place(name) == usize::MAX)).collect();
    fields.sort_by_key(|(name, ..)| place(name));
    fields
}

/// What a type is without `null`, and whether it may be that.
fn without_null(schema: &Value) -> (Value, bool) {
    if let Some(choices) = schema["anyOf"].as_array() {
        let others: Vec<&Value> = choices.iter().filter(|choice| choice["type"] != "null").collect();
        assert_eq!(others.len(), 1, "a choice between several types: {schema}");
        return (others[0].clone(), true);
    }
    let Some(kinds) = schema["type"].as_array() else { return (schema.clone(), false) };
    let kind = kinds.iter().find(|kind| *kind != "null").expect("a type");
    let mut schema = schema.clone();
    schema["type"] = kind.clone();
    if let Some(names) = schema["enum"].as_array_mut() {
        names.retain(|name| !name.is_null());
    }
    (schema, true)
}

/// As TypeScript writes it.
fn typescript(schema: &Value) -> String {
    let (schema, maybe) = without_null(schema);
    let text = if let Some(reference) = schema["$ref"].as_str() {
        name_in(reference)
    } else {
        match schema["type"].as_str() {
            Some("string") => "string".to_owned(),
            Some("boolean") => "boolean".to_owned(),
            Some("number" | "integer") => "number".to_owned(),
            Some("array") => {
                let element = typescript(&schema["items"]);
                match schema["minItems"].as_u64() {
                    Some(2) => format!("[{element}, {element}]"),
                    _ => format!("{element}[]"),
                }
            }
            Some("object") if schema["properties"].is_object() => {
                let members: Vec<String> = fields(&schema)
                    .into_iter()
                    .map(|(name, schema, _)| format!("{name}: {}", typescript(schema)))
                    .collect();
                format!("{{ {} }}", members.join("; "))
            }
            Some("object") => {
                let value = schema["additionalProperties"].as_object().or_else(|| {
                    schema["patternProperties"]
                        .as_object()
                        .and_then(|patterns| patterns.values().next()?.as_object())
                });
                format!("Record<string, {}>", typescript(&Value::Object(value.expect("values").clone())))
            }
            _ => panic!("no type: {schema}"),
        }
    };
    if maybe { format!("Maybe<{text}>") } else { text }
}

/// As the documentation writes it.
fn in_words(schema: &Value) -> String {
    let (schema, maybe) = without_null(schema);
    let text = if let Some(reference) = schema["$ref"].as_str() {
        let name = name_in(reference);
        if name.ends_with("Name") {
            "string".to_owned()
        } else {
            format!("[{name}](#{})", name.to_lowercase())
        }
    } else {
        match schema["type"].as_str() {
            Some("string") => "string".to_owned(),
            Some("boolean") => "boolean".to_owned(),
            Some("number") => "number".to_owned(),
            Some("integer") => "integer".to_owned(),
            Some("array") => format!("list of {}", in_words(&schema["items"])),
            Some("object") if schema["properties"].is_object() => {
                let of = in_words(&schema["properties"]["up"]);
                format!("`up`, `down`: {of}")
            }
            Some("object") => {
                let value = &schema["additionalProperties"];
                let value = if value.is_object() {
                    value.clone()
                } else {
                    schema["patternProperties"]
                        .as_object()
                        .expect("patterns")
                        .values()
                        .next()
                        .expect("one")
                        .clone()
                };
                format!("by name: {}", in_words(&value))
            }
            _ => panic!("no type: {schema}"),
        }
    };
    match (maybe, schema["properties"].is_object()) {
        (false, _) => text,
        (true, false) => format!("{text} or `null`"),
        (true, true) => format!("{text}; or `null`"),
    }
}

fn described(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_s_types_are_those_of_the_agent() {
    let mut text = "// Written by `./dev generate` from agent/wire. An unknown figure is null or absent.\n\n\
                    export type Maybe<T> = T | null | undefined;\n"
        .to_owned();
    for (name, schema) in schemas() {
        if let Some(names) = schema["enum"].as_array() {
            let all = format!("{}S", name.trim_end_matches("Name").to_uppercase());
            let names: Vec<String> = names.iter().map(|name| name.to_string().replace('"', "'")).collect();
            writeln!(text, "\nexport const {all} = [{}] as const;", names.join(", ")).unwrap();
            writeln!(text, "export type {name} = (typeof {all})[number];").unwrap();
            continue;
        }
        writeln!(text, "\n// {}\nexport interface {name} {{", described(&schema)).unwrap();
        for (field, schema, may_be_absent) in fields(&schema) {
            if may_be_absent {
                // It is not there when it is not known.
                writeln!(text, "    {field}?: {};", typescript(&without_null(schema).0)).unwrap();
            } else {
                writeln!(text, "    {field}: {};", typescript(schema)).unwrap();
            }
        }
        text.push_str("}\n");
    }
    hold("agent/web/src/api.ts", &text);
}

#[test]
fn the_reference_lists_every_field_that_is_sent() {
    let mut text = "# Fields of the HTTP interface\n\nEvery field of what the agent sends, written by `./dev generate` from `agent/wire`. [api.md](api.md) says which path answers with what. \
                    Times are in seconds (`_s`), rates in bits per second (`_bps`), sizes in bytes (`_bytes`). `since_s` and `at_s` are on the kernel's monotonic clock. \
                    An unknown figure is `null` or absent, never 0.\n"
        .to_owned();
    for (name, schema) in schemas() {
        if schema["enum"].is_array() {
            continue;
        }
        writeln!(text, "\n## {name}\n\n{}\n\n| field | type | meaning |\n|---|---|---|", described(&schema))
            .unwrap();
        for (field, schema, may_be_absent) in fields(&schema) {
            let meaning = described(schema);
            assert!(!meaning.is_empty(), "{name}.{field} is not described");
            let absent = if may_be_absent { ", may be absent" } else { "" };
            let kind = if may_be_absent { in_words(&without_null(schema).0) } else { in_words(schema) };
            writeln!(text, "| `{field}` | {kind}{absent} | {} |", meaning.replace('|', "\\|")).unwrap();
        }
    }
    hold("docs/reference/api-fields.md", &text);
}
