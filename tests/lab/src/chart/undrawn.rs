//! In place of drawing where the feature `charts` is off, as in the demo, which draws none.

use std::path::{Path, PathBuf};

use super::Chart;

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw {}: this pendulum-lab was built without its feature `charts`", path.display())]
pub struct ChartError {
    path: PathBuf,
}

/// Would write `<directory>/<name>.png` and `.svg`.
///
/// # Errors
/// Always.
pub fn write(chart: &Chart, directory: &Path) -> Result<(), ChartError> {
    Err(ChartError { path: directory.join(&chart.name) })
}
