//! How the checks are shown.

use std::fmt::Write as _;

use super::{Rung, Verdict};
use crate::bpf::RungStatus;

pub(super) fn json(rungs: &[Rung], verdict: Verdict) -> serde_json::Value {
    serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "verdict": verdict,
        "rungs": rungs,
    })
}

pub(super) fn text(rungs: &[Rung], verdict: Verdict) -> String {
    let width = rungs.iter().map(|rung| rung.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for rung in rungs {
        let mut line = |status: &str, name: &str, what: &str| {
            let _ = writeln!(text, "{status:<9} {name:<width$}  {what}");
        };
        line(status_name(rung.status), rung.name, &rung.reason);
        if !rung.cost.is_empty() {
            line("", "", &format!("cost:   {}", rung.cost));
        }
        if !rung.remedy.is_empty() {
            line("", "", &format!("remedy: {}", rung.remedy));
        }
    }
    let count = |status| rungs.iter().filter(|rung| rung.status == status).count();
    let _ = match verdict {
        Verdict::Ok => writeln!(text, "\nall {} checks passed", rungs.len()),
        Verdict::Degraded => {
            writeln!(
                text,
                "\nthe agent can run; {} of {} checks are degraded",
                count(RungStatus::Degraded),
                rungs.len()
            )
        }
        Verdict::CannotRun => {
            writeln!(
                text,
                "\nthe agent cannot run: {} of {} checks failed",
                count(RungStatus::Missing),
                rungs.len()
            )
        }
    };
    text
}

fn status_name(status: RungStatus) -> &'static str {
    match status {
        RungStatus::Ok => "ok",
        RungStatus::Degraded => "degraded",
        RungStatus::Missing => "missing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_aligned_and_ends_with_the_verdict() {
        let rungs =
            [Rung::ok("btf", "there"), Rung::degraded("long_name", "too old", "update it", "less is seen")];
        let expected = "ok        btf        there\n\
                        degraded  long_name  too old\n\
                        \u{20}                    cost:   less is seen\n\
                        \u{20}                    remedy: update it\n\
                        \nthe agent can run; 1 of 2 checks are degraded\n";
        assert_eq!(text(&rungs, Verdict::of(&rungs)), expected);
    }

    #[test]
    fn the_worst_rung_decides() {
        let ok = Rung::ok("a", "");
        let degraded = Rung::degraded("b", "", "", "");
        let missing = Rung::missing("c", "", "", "");
        assert_eq!(Verdict::of(std::slice::from_ref(&ok)), Verdict::Ok);
        assert_eq!(Verdict::of(&[ok.clone(), degraded.clone()]), Verdict::Degraded);
        assert_eq!(Verdict::of(&[missing, ok, degraded]), Verdict::CannotRun);
    }
}
