//! Where the bytes of a capture come from: a file, or standard input (`-`).
//!
//! A capture is read more than once: what comes through a pipe is copied to a file without a name first, which goes with the
//! process. A file that the shell has opened (`< FILE`) is read as it is.

use std::fs::File;
use std::io::{self, IsTerminal as _, Seek as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::sync::OnceLock;

/// The path that means standard input.
pub(crate) const STDIN: &str = "-";

/// What came through standard input: it comes once.
static COPY: OnceLock<Result<File, String>> = OnceLock::new();

/// Opens a capture at its beginning.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let file = if path == Path::new(STDIN) {
        match COPY.get_or_init(|| standard_input().map_err(|error| error.to_string())) {
            // A file description of its own, with a position of its own.
            Ok(copy) => File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?,
            Err(reason) => return Err(io::Error::other(reason.clone())),
        }
    } else {
        File::open(path)?
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(
            "it is not a regular file; write it to one first, or give `-` and let it come through standard input",
        ));
    }
    Ok(file)
}

fn standard_input() -> io::Result<File> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(io::Error::other(
            "standard input is a terminal; let a capture come through it: `… | pendulum replay --wan -`",
        ));
    }
    let mut input = File::from(stdin.as_fd().try_clone_to_owned()?);
    if input.metadata()?.is_file() && input.stream_position()? == 0 {
        return Ok(input);
    }
    copy(&mut input).map_err(|error| {
        let place = std::env::temp_dir();
        io::Error::other(format!(
            "standard input cannot be copied to {}: {error}; set TMPDIR to where there is room",
            place.display()
        ))
    })
}

fn copy(input: &mut File) -> io::Result<File> {
    let mut copy = tempfile::tempfile()?;
    io::copy(input, &mut copy)?;
    Ok(copy)
}
