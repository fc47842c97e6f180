//! The committed bundle is what its sources give.

use std::path::Path;
use std::process::Command;

const FILES: [&str; 4] = ["index.html", "page.js", "page.css", "icon.svg"];

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&text).trim()))
}

#[test]
fn the_embedded_page_is_built_from_its_sources() {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
    let directory = tempfile::tempdir().unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-r").args(
        [
            "package.json",
            "package-lock.json",
            "tsconfig.json",
            "build.mjs",
            "index.html",
            "icon.svg",
            "src",
            "style",
        ]
        .map(|name| web.join(name)),
    );
    run(copy.arg(directory.path())).unwrap();
    let npm = |arguments: &[&str]| run(Command::new("npm").args(arguments).current_dir(directory.path()));
    if let Err(reason) = npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"]) {
        let reason = reason.lines().take(3).collect::<Vec<_>>().join(" ");
        eprintln!("SKIPPED the_embedded_page_is_built_from_its_sources: npm cannot fetch here: {reason}");
        return;
    }
    npm(&["run", "check"]).unwrap();
    npm(&["run", "build"]).unwrap();
    for file in FILES {
        let built = std::fs::read(directory.path().join("dist").join(file)).unwrap();
        let committed = std::fs::read(web.join("dist").join(file)).unwrap();
        assert!(built == committed, "agent/web/dist/{file} is not what the sources give: run ./dev page");
    }
}
