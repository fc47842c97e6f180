//! Closed loops of the automatic rate as tables: `cargo run -p pendulum-reference --example autorate [held-out] [each] [far] [priorities]`.
#![expect(clippy::print_stdout, reason = "an example prints")]

use pendulum_reference::autorate::{compare, far, priorities};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|it| it == word);
    match (has("far"), has("priorities")) {
        (true, _) => print!("{}", far()),
        (_, true) => print!("{}", priorities()),
        _ => print!("{}", compare(has("held-out"), has("each"))),
    }
}
