//! Charts to PNG and SVG by `plotters`. The PNG's letters come from a font that is part of the program, so that a machine without fonts
//! draws the same; the SVG leaves them to whoever shows it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::chart::{ChartBuilder, ChartContext, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, IntoDrawingArea as _};
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::{Color as _, FontStyle, IntoFont as _, RGBColor, ShapeStyle, TextStyle, WHITE};

use super::thin::thinned;
use super::{Chart, Corner, Form, Panel, Series};

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw {}: {reason}; is there space, and may you write there?", path.display())]
pub struct ChartError {
    path: PathBuf,
    reason: String,
}

const WIDTH: u32 = 880;
const PANEL_HEIGHT: u32 = 230;
const TITLE_HEIGHT: u32 = 34;
/// Up to so many panels stand below each other.
const SINGLE: usize = 6;
/// Columns that lines are thinned to; an SVG of three panels stays below 60 kB.
const COLUMNS: usize = 200;
const FONT: &str = "DejaVu Sans";
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

/// DejaVu Sans, Latin and a few Greek letters and signs; free to use and to embed (DejaVuSans-LICENSE.txt).
const FONT_DATA: &[u8] = include_bytes!("DejaVuSans-subset.ttf");

/// Writes `<directory>/<name>.png` and `.svg`.
///
/// # Errors
/// If a file cannot be written.
pub fn write(chart: &Chart, directory: &Path) -> Result<(), ChartError> {
    register_font();
    let (rows, _) = grid(chart);
    let size = (WIDTH, TITLE_HEIGHT + PANEL_HEIGHT * rows as u32);
    for extension in ["png", "svg"] {
        let path = directory.join(format!("{}.{extension}", chart.name));
        let drawn = if extension == "png" {
            draw(chart, BitMapBackend::new(&path, size).into_drawing_area())
        } else {
            draw(chart, SVGBackend::new(&path, size).into_drawing_area())
        };
        drawn.map_err(|reason| ChartError { path, reason })?;
    }
    Ok(())
}

/// Rows and columns: many panels stand in pairs.
fn grid(chart: &Chart) -> (usize, usize) {
    let columns = if chart.panels.len() > SINGLE { 2 } else { 1 };
    (chart.panels.len().div_ceil(columns), columns)
}

fn register_font() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        // Without it the letters are missing and drawing says so.
        let _ = plotters::style::register_font(FONT, FontStyle::Normal, FONT_DATA);
    });
}

type Area<B> = DrawingArea<B, Shift>;
type Axes<'a, B> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn draw<B: DrawingBackend>(chart: &Chart, area: Area<B>) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    area.fill(&WHITE).map_err(|error| text(&error))?;
    let (head, body) = area.split_vertically(TITLE_HEIGHT);
    head.draw_text(&chart.title, &letters(16), (12, 10)).map_err(|error| text(&error))?;
    for (panel, area) in chart.panels.iter().zip(body.split_evenly(grid(chart))) {
        draw_panel(panel, &area)?;
    }
    area.present().map_err(|error| text(&error))
}

fn letters(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

fn draw_panel<B: DrawingBackend>(panel: &Panel, area: &Area<B>) -> Result<(), String> {
    let (x, y) = panel.bounds();
    let mut axes = ChartBuilder::on(area)
        .margin_left(12)
        .margin_right(18)
        .margin_top(6)
        .x_label_area_size(40)
        .y_label_area_size(66)
        .build_cartesian_2d(x.0..x.1, y.0..y.1)
        .map_err(|error| error.to_string())?;
    let (x_digits, y_digits) = (digits(x), digits(y));
    axes.configure_mesh()
        .max_light_lines(0)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .x_labels(12)
        .y_labels(6)
        .x_label_formatter(&|value| format!("{value:.x_digits$}"))
        .y_label_formatter(&|value| format!("{value:.y_digits$}"))
        .label_style(letters(12))
        .axis_desc_style(letters(13))
        .draw()
        .map_err(|error| error.to_string())?;
    for series in &panel.series {
        draw_series(series, x, &mut axes)?;
    }
    if panel.series.iter().any(|series| !series.label.is_empty()) {
        axes.configure_series_labels()
            .position(match panel.legend {
                Corner::UpperRight => SeriesLabelPosition::UpperRight,
                Corner::LowerRight => SeriesLabelPosition::LowerRight,
            })
            .background_style(WHITE.mix(0.85))
            .border_style(GRID)
            .label_font(letters(12))
            .margin(4)
            .draw()
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Decimals that tell the labels of an axis apart.
fn digits((low, high): (f64, f64)) -> usize {
    match high - low {
        span if span >= 10.0 => 0,
        span if span >= 1.0 => 1,
        span if span >= 0.1 => 2,
        _ => 3,
    }
}

fn draw_series<'a, B: DrawingBackend + 'a>(
    series: &Series,
    range: (f64, f64),
    axes: &mut Axes<'a, B>,
) -> Result<(), String> {
    let (red, green, blue) = series.colour.rgb();
    let colour = RGBColor(red, green, blue);
    let line = colour.stroke_width(2);
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let points = || thinned(&series.points, range, COLUMNS);
    let marks = || series.points.iter().map(move |&point| Circle::new(point, 4, colour.filled()));
    match series.form {
        Form::Line => {
            legend(axes.draw_series(LineSeries::new(points(), line)).map_err(|e| failed(&e))?, series, line)
        }
        Form::Dashes => legend(
            axes.draw_series(DashedLineSeries::new(points(), 6, 4, line)).map_err(|e| failed(&e))?,
            series,
            line,
        ),
        Form::Marks => legend(axes.draw_series(marks()).map_err(|e| failed(&e))?, series, line),
        Form::Circles => {
            let circles = series.points.iter().map(|&point| Circle::new(point, 4, line));
            legend(axes.draw_series(circles).map_err(|e| failed(&e))?, series, line);
        }
        Form::MarkedLine => {
            axes.draw_series(marks()).map_err(|e| failed(&e))?;
            legend(axes.draw_series(LineSeries::new(points(), line)).map_err(|e| failed(&e))?, series, line);
        }
        Form::Bars => {
            let bars = series
                .points
                .iter()
                .map(|&(x, y)| Rectangle::new([(x - 0.4, 0.0), (x + 0.4, y)], colour.mix(0.8).filled()));
            legend(axes.draw_series(bars).map_err(|e| failed(&e))?, series, line);
        }
        Form::Spread => {
            let bars =
                series.points.chunk_by(|a, b| a.0 == b.0).map(|group| PathElement::new(group.to_vec(), line));
            legend(axes.draw_series(bars).map_err(|e| failed(&e))?, series, line);
        }
    }
    Ok(())
}

fn legend<'a, B: DrawingBackend + 'a>(
    drawn: &mut plotters::chart::SeriesAnno<'a, B>,
    series: &Series,
    style: ShapeStyle,
) {
    if series.label.is_empty() {
        return;
    }
    let form = series.form;
    drawn.label(&series.label).legend(move |(x, y)| match form {
        Form::Dashes => PathElement::new(vec![(x, y), (x + 7, y)], style),
        // A polygon, since all glyphs are paths: the thick line fills it.
        Form::Marks | Form::Circles => {
            let radius = if form == Form::Marks { 2 } else { 4 };
            let (left, right) = ((x + 9 - radius, y), (x + 9 + radius, y));
            let (top, bottom) = ((x + 9, y - radius), (x + 9, y + radius));
            let style = if form == Form::Marks { style.stroke_width(4) } else { style };
            PathElement::new(vec![left, top, right, bottom, left], style)
        }
        _ => PathElement::new(vec![(x, y), (x + 18, y)], style),
    });
}

#[cfg(test)]
mod tests {
    use super::super::Colour;
    use super::*;

    #[test]
    fn a_chart_becomes_a_picture_and_a_drawing() {
        let form = |label: &str, form| {
            Series::line(label, Colour::Up, vec![(0.0, 1.0), (1.0, 3.0), (1.0, 2.0)]).drawn(form)
        };
        let forms = [
            Form::Line,
            Form::Dashes,
            Form::Marks,
            Form::Circles,
            Form::MarkedLine,
            Form::Bars,
            Form::Spread,
        ];
        let series = forms.into_iter().map(|one| form("η ≤ 3 → x", one)).collect();
        let chart = Chart {
            name: format!("chart-test-{}", std::process::id()),
            title: "Both – queues".into(),
            panels: vec![Panel::new("time, s", "queue, kB", series)],
        };
        let directory = std::env::temp_dir();
        write(&chart, &directory).unwrap();
        let file = |extension| directory.join(format!("{}.{extension}", chart.name));
        let png = std::fs::read(file("png")).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        let svg = std::fs::read_to_string(file("svg")).unwrap();
        assert!(svg.contains("time, s") && svg.contains("Both – queues") && svg.contains("#D55E00"));
        for extension in ["png", "svg"] {
            std::fs::remove_file(file(extension)).unwrap();
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let chart = Chart { name: "x".into(), title: String::new(), panels: Vec::new() };
        let error = write(&chart, Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/x.png"), "{error}");
    }
}
