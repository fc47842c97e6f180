//! Closed loops of the automatic rate as tables: `cargo run -p pendulum-reference --example autorate far | single | quic | [held-out] [each]`.
#![expect(clippy::print_stdout, reason = "an example prints")]

use pendulum_reference::autorate::{compare, far, quic, single};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|it| it == word);
    match words.first().map(String::as_str) {
        Some("far") => print!("{}", far()),
        Some("quic") => print!("{}", quic()),
        Some("single") => print!("{}", single()),
        _ => print!("{}", compare(has("held-out"), has("each"))),
    }
}
