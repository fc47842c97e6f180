//! The block as text, character for character.

use super::*;
use crate::demo::style::Palette;
use crate::demo::view::tests::example;

fn drawn(view: &View, glyphs: &Glyphs, columns: usize) -> String {
    let lines = block(view, glyphs, columns);
    assert!(lines.iter().all(|line| line.width() < columns), "{columns}");
    lines.iter().map(|line| line.render(Palette::Monochrome) + "\n").collect()
}

#[test]
fn at_80_columns_with_all_that_an_agent_can_tell() {
    let text = drawn(&example(true), &Glyphs::UNICODE, 80);
    assert_eq!(text, include_str!("at_80_columns.txt"), "\n{text}");
}

#[test]
fn at_60_columns_with_an_agent_without_queues_and_verdict() {
    let text = drawn(&example(false), &Glyphs::UNICODE, 60);
    assert_eq!(text, include_str!("at_60_columns.txt"), "\n{text}");
}

#[test]
fn without_utf_8_it_is_plain_ascii() {
    let text = drawn(&example(false), &Glyphs::ASCII, 80);
    assert!(text.is_ascii(), "{text}");
}

#[test]
fn each_direction_has_its_own_colour_and_no_other() {
    let lines = block(&example(true), &Glyphs::UNICODE, 80);
    let text: String = lines.iter().map(|line| line.render(Palette::Many)).collect();
    for (code, arrow) in [("38;5;33", "▼"), ("38;5;208", "▲")] {
        assert_eq!(text.matches(&format!("\x1b[{code}m{arrow}")).count(), 2, "{text:?}");
    }
    let colours = text.matches("38;5;").count();
    assert_eq!(colours, text.matches("38;5;33m").count() + text.matches("38;5;208m").count());
}

#[test]
fn any_width_is_drawn() {
    for columns in 0..200 {
        assert!(!block(&example(true), &Glyphs::UNICODE, columns).is_empty());
    }
}

#[test]
fn every_class_has_its_row() {
    let mut shown: Vec<Class> = CLASSES.iter().flat_map(|(_, classes)| classes.iter().copied()).collect();
    shown.sort();
    assert_eq!(shown, Class::ALL);
}

#[test]
fn where_there_is_no_terminal_one_line_says_it() {
    assert_eq!(
        line(&example(true), &Glyphs::UNICODE),
        "  41 s  + one upload    down  312 kb/s (13 %)  up  193 kb/s (99 %)  queues 0 B, 30.0 kB  \
         outstanding 1,448 B, 52.1 kB  round trip 1.21 s  locked_uplink"
    );
}
