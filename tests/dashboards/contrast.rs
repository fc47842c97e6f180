//! Text that can be read: contrast by WCAG 2 of everything that Grafana writes on a colour of the dashboards. It has the text's colour from the
//! ground: `getTextColorForAlphaBackground` (figures and cells), `getContrastText` (strips of states).

use serde_json::Value;

use crate::files::{Dashboard, text};

/// WCAG 2, level AA, for text of any size.
const AA: f64 = 4.5;
/// Grafana's dark and light text.
const DARK: [u8; 3] = [32, 34, 38];
const LIGHT: [u8; 3] = [247, 248, 250];

fn rgb(colour: &str) -> [u8; 3] {
    let digits = colour.strip_prefix('#').unwrap_or_else(|| panic!("{colour} is no #rrggbb"));
    assert_eq!(digits.len(), 6, "{colour}");
    [0, 2, 4].map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
}

fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let luminance = |colour: [u8; 3]| {
        let linear = colour.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05
    };
    let (a, b) = (luminance(one), luminance(other));
    a.max(b) / a.min(b)
}

/// On figures and cells.
fn on_ground(ground: [u8; 3]) -> f64 {
    let [red, green, blue] = ground.map(f64::from);
    let is_bright = (red * 299.0 + green * 587.0 + blue * 114.0) / 1000.0 > 180.0;
    contrast(ground, if is_bright { DARK } else { LIGHT })
}

/// On strips.
fn on_strip(ground: [u8; 3]) -> f64 {
    let white = contrast(ground, [255; 3]);
    if white >= 3.0 { white } else { contrast(ground, [0; 3]) }
}

/// All colours of thresholds and mappings.
fn grounds(settings: &Value) -> Vec<String> {
    let steps = settings["thresholds"]["steps"].as_array().into_iter().flatten();
    let mut found: Vec<String> = steps.map(|step| text(&step["color"])).collect();
    for mapping in settings["mappings"].as_array().into_iter().flatten() {
        let options = mapping["options"].as_object().unwrap();
        found.extend(options.values().filter_map(|one| one["color"].as_str().map(str::to_owned)));
    }
    // Grafana writes on these as on the panel itself.
    found.retain(|colour| colour != "transparent");
    found
}

/// Properties of an override, as settings.
fn settings(one: &Value) -> Value {
    let properties = one["properties"].as_array().unwrap();
    properties.iter().map(|property| (text(&property["id"]), property["value"].clone())).collect()
}

#[test]
fn the_formula_is_that_of_the_standard() {
    // Examples of WCAG 2 and its tools.
    assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
    assert!((contrast([0x77; 3], [255; 3]) - 4.478).abs() < 0.01);
    // What a reader found: dark red on Grafana's black, yellow on white.
    assert!(contrast(rgb("#b00d2a"), rgb("#181b1f")) < 2.5);
    assert!(contrast(rgb("#f2cc0c"), [255; 3]) < 1.6);
}

#[test]
fn all_text_can_be_read() {
    let (mut measured, mut complaints) = (0, Vec::new());
    for dashboard in Dashboard::all() {
        for panel in dashboard.panels() {
            let (title, kind) = (text(&panel["title"]), text(&panel["type"]));
            let mut must = |holds: bool, what: String| {
                if !holds {
                    complaints.push(format!("{}: {title}: {what}", dashboard.name));
                }
            };
            let (defaults, options) = (&panel["fieldConfig"]["defaults"], &panel["options"]);
            let overrides = panel["fieldConfig"]["overrides"].as_array().into_iter().flatten().map(settings);
            let all: Vec<Value> = std::iter::once(defaults.clone()).chain(overrides).collect();
            // A colour is a ground, of one shade; never the text's own.
            must(
                kind != "stat" || options["colorMode"] == "background_solid",
                format!("writes in colours: {}", options["colorMode"]),
            );
            must(
                kind != "state-timeline" || defaults["custom"]["fillOpacity"] == 100,
                "the ground shines through a strip".to_owned(),
            );
            let cells = all.iter().map(|settings| &settings["custom.cellOptions"]);
            for cell in cells.filter(|cell| kind == "table" && !cell.is_null()) {
                let is_plain =
                    cell["type"] == "auto" || (cell["type"] == "color-background" && cell["mode"] == "basic");
                must(is_plain, format!("cells are {cell}"));
            }
            if !["stat", "table", "state-timeline"].contains(&kind.as_str()) {
                continue;
            }
            for colour in all.iter().flat_map(grounds) {
                let ground = rgb(&colour);
                let ratio = if kind == "state-timeline" { on_strip(ground) } else { on_ground(ground) };
                must(ratio >= AA, format!("{ratio:.1}:1 on {colour}"));
                measured += 1;
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(measured > 50, "only {measured} grounds");
}
