//! Every input that was kept, through its target again: seeds, and what the fuzzer has found. And what becomes of them by chance.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod mutation;
mod targets;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For each target; `PENDULUM_FUZZ_SECONDS=600` makes it a long run.
const SECONDS: u64 = 2;
/// As `./dev fuzz` has it.
const LONGEST: usize = 8_192;

fn kept(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(name);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(seeds).unwrap().map(|entry| entry.unwrap().path()).collect();
    // The same order everywhere: what a number makes of them is then the same too.
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn kept_inputs_do_no_harm() {
    for (name, target) in targets::ALL {
        let inputs = kept(name);
        assert!(!inputs.is_empty(), "no input for {name}");
        for (path, input) in inputs {
            println!("{}", path.display());
            target(&input);
        }
    }
}

#[test]
fn mutated_inputs_do_no_harm() {
    let seconds = std::env::var("PENDULUM_FUZZ_SECONDS").map_or(SECONDS, |text| text.parse().unwrap());
    for (name, target) in targets::ALL {
        let inputs: Vec<Vec<u8>> = kept(name).into_iter().map(|(_, input)| input).collect();
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut number = 0;
        while Instant::now() < end {
            let input = mutation::mutated(&inputs, number, LONGEST);
            if std::panic::catch_unwind(|| target(&input)).is_err() {
                let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{number}"));
                std::fs::write(&file, &input).unwrap();
                panic!(
                    "{name}: {} does harm; when that is mended, keep it in fuzz/seeds/{name}",
                    file.display()
                );
            }
            number += 1;
        }
        println!("{name}: {number} inputs");
    }
}
