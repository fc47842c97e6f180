//! The files have nothing that Grafana 12 or 13 does not know: by their own types (@grafana/schema, Apache 2.0) and a compiler.

use std::process::Command;

use crate::rendered::{fetched, here, run};

/// The errors that the compiler finds in these files by one of the types.
fn errors(directory: &std::path::Path, schema: &str, files: &[String]) -> String {
    let mut check = Command::new("node");
    let program = run(check.arg(here("schema/check.cjs")).arg(schema).args(files), "").unwrap();
    let source = format!("{schema}.ts");
    std::fs::write(directory.join(&source), program).unwrap();
    let mut compiler = Command::new("node_modules/.bin/tsc");
    compiler.args(["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", &source]);
    let output = compiler.current_dir(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{output:?}");
    said
}

#[test]
fn grafana_12_and_13_know_every_field() {
    let test = "grafana_12_and_13_know_every_field";
    let Some(directory) = fetched(test, &here("schema")) else { return };
    let directory = directory.path();
    let files = ["link", "fleet"].map(|name| {
        let file = here(&format!("../../dashboards/grafana/{name}.json"));
        file.to_str().unwrap().to_owned()
    });
    for schema in ["schema12", "schema13"] {
        let found = errors(directory, schema, &files);
        assert!(found.is_empty(), "{schema}:\n{found}");
    }
    // A field, a value and an override that there are not.
    let mut text = std::fs::read_to_string(&files[0]).unwrap();
    let mistakes = [
        ("\"cellHeight\"", "\"cellWidth\""),
        ("\"graphMode\": \"none\"", "\"graphMode\": \"some\""),
        ("\"custom.width\"", "\"custom.breadth\""),
    ];
    for (right, wrong) in mistakes {
        assert!(text.contains(right), "{right}");
        text = text.replacen(right, wrong, 1);
    }
    let file = directory.join("wrong.json");
    std::fs::write(&file, text).unwrap();
    let found = errors(directory, "schema13", &[file.to_str().unwrap().to_owned()]);
    assert_eq!(found.lines().filter(|line| line.contains("error")).count(), mistakes.len(), "{found}");
}
