//! What the program says without a lab: refusals, and its list.

use std::process::Command;

use super::can_run;

#[test]
fn bad_wishes_are_refused_with_their_remedy() {
    let refused = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_pendulum-lab")).args(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, message) = refused(&["run", "fig99"]);
    assert_eq!(code, Some(64));
    assert!(message.contains("fig99") && message.contains("fig1"), "{message}");
    let (code, message) = refused(&["run", "swing", "--only", "nothing"]);
    assert_eq!(code, Some(64));
    assert!(message.contains("`nothing`") && message.contains("swing"), "{message}");
    let (code, message) = refused(&["up", "--uplink-rate", "fast"]);
    assert_eq!(code, Some(64));
    assert!(message.contains("--uplink-rate"), "{message}");
    if can_run() {
        let (code, message) = refused(&["up", "--uplink-buffer", "100"]);
        assert_eq!(code, Some(64));
        assert!(message.contains("100b") && message.contains("1514"), "{message}");
    }
}

#[test]
fn the_list_names_every_experiment_with_figure_and_duration() {
    let output = Command::new(env!("CARGO_BIN_EXE_pendulum-lab")).arg("list").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for experiment in pendulum_lab::experiment::ALL {
        let about = experiment.about();
        let line = text.lines().find(|line| line.starts_with(about.name)).unwrap();
        assert!(line.contains(about.source), "{line}");
        let times = [about.usual, about.quick].map(|time| format!("{} s", time.as_secs()));
        assert!(times.iter().all(|time| line.contains(time)), "{line}");
    }
}
