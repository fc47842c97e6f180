//! How the checks are shown.

use std::fmt::Write as _;

use super::{Check, Verdict};
use crate::bpf::CheckStatus;

pub(super) fn json(checks: &[Check], verdict: Verdict) -> serde_json::Value {
    serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "verdict": verdict,
        "checks": checks,
    })
}

pub(super) fn text(checks: &[Check], verdict: Verdict) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let mut line = |status: &str, name: &str, what: &str| {
            let _ = writeln!(text, "{status:<9} {name:<width$}  {what}");
        };
        line(status_name(check.status), check.name, &check.reason);
        if !check.cost.is_empty() {
            line("", "", &format!("cost:   {}", check.cost));
        }
        if !check.remedy.is_empty() {
            line("", "", &format!("remedy: {}", check.remedy));
        }
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let _ = match verdict {
        Verdict::Ok => writeln!(text, "\nall {} checks passed", checks.len()),
        Verdict::Degraded => {
            writeln!(
                text,
                "\nthe agent can run; {} of {} checks are degraded",
                count(CheckStatus::Degraded),
                checks.len()
            )
        }
        Verdict::CannotRun => {
            writeln!(
                text,
                "\nthe agent cannot run: {} of {} checks failed",
                count(CheckStatus::Missing),
                checks.len()
            )
        }
    };
    text
}

fn status_name(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::Ok => "ok",
        CheckStatus::Degraded => "degraded",
        CheckStatus::Missing => "missing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_aligned_and_ends_with_the_verdict() {
        let checks =
            [Check::ok("btf", "there"), Check::degraded("long_name", "too old", "update it", "less is seen")];
        let expected = "ok        btf        there\n\
                        degraded  long_name  too old\n\
                        \u{20}                    cost:   less is seen\n\
                        \u{20}                    remedy: update it\n\
                        \nthe agent can run; 1 of 2 checks are degraded\n";
        assert_eq!(text(&checks, Verdict::of(&checks)), expected);
    }

    #[test]
    fn the_worst_rung_decides() {
        let ok = Check::ok("a", "");
        let degraded = Check::degraded("b", "", "", "");
        let missing = Check::missing("c", "", "", "");
        assert_eq!(Verdict::of(std::slice::from_ref(&ok)), Verdict::Ok);
        assert_eq!(Verdict::of(&[ok.clone(), degraded.clone()]), Verdict::Degraded);
        assert_eq!(Verdict::of(&[missing, ok, degraded]), Verdict::CannotRun);
    }
}
