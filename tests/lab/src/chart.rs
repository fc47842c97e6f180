//! Plots as data: axes with units, series with fixed colours. [`write()`] turns them into PNG and SVG, with the feature `charts`.
//!
//! The colours are those of Okabe and Ito, which people tell apart who see colours differently; what matters differs in form as well
//! (line, dashes, points).

#[cfg(feature = "charts")]
mod draw;
#[cfg(not(feature = "charts"))]
#[path = "chart/undrawn.rs"]
mod draw;
#[cfg(feature = "charts")]
mod thin;

pub use draw::{ChartError, write};

use pendulum_model::colour::of_direction;
use pendulum_model::segment::Direction;

/// One figure: panels below each other, many of them in two columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Names its files.
    pub name: String,
    /// Above everything.
    pub title: String,
    /// From top to bottom; in two columns from left to right first.
    pub panels: Vec<Panel>,
}

/// One pair of axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Below: quantity and unit.
    pub x: String,
    /// At the side: quantity and unit.
    pub y: String,
    /// Where the axes end; `None` where the data ends.
    pub range: Range,
    /// Where the legend is.
    pub legend: Corner,
    /// What is shown.
    pub series: Vec<Series>,
}

/// A corner of a panel that has room for the legend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Corner {
    /// Above all points.
    #[default]
    UpperRight,
    /// Below them.
    LowerRight,
}

/// Ends of the axes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// Of the horizontal axis.
    pub x: Option<(f64, f64)>,
    /// Of the vertical axis; else from 0 to somewhat above the largest value.
    pub y: Option<(f64, f64)>,
}

/// One thing shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// For the legend; none if empty.
    pub label: String,
    /// Its colour.
    pub colour: Colour,
    /// Its form.
    pub form: Form,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line through the points.
    Line,
    /// The same, broken.
    Dashes,
    /// A mark at each point.
    Marks,
    /// An open circle at each point.
    Circles,
    /// A mark at each point, and a line through them.
    MarkedLine,
    /// A bar from zero to each point, one unit wide.
    Bars,
    /// A vertical line through all points of the same x, such as a spread.
    Spread,
}

/// What a colour stands for, everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// The downlink, its buffer, downloads.
    Down,
    /// The uplink, its buffer, uploads.
    Up,
    /// Paper 000, Eq. 11.
    Paper,
    /// The refined model.
    Refined,
    /// The first of several alike.
    First,
    /// The second.
    Second,
    /// The third.
    Third,
    /// The fourth.
    Fourth,
    /// A limit or a target.
    Limit,
}

impl Colour {
    /// Red, green, blue.
    pub const fn rgb(self) -> (u8, u8, u8) {
        match self {
            Self::Down | Self::First => parts(of_direction(Direction::Down).any),
            Self::Up | Self::Second => parts(of_direction(Direction::Up).any),
            Self::Refined | Self::Third => (0x00, 0x9e, 0x73),
            Self::Fourth => (0xcc, 0x79, 0xa7),
            Self::Paper => (0x22, 0x22, 0x22),
            Self::Limit => (0x99, 0x99, 0x99),
        }
    }

    /// For the members of a family, in turn.
    pub const fn of_family(index: usize) -> Self {
        match index % 4 {
            0 => Self::First,
            1 => Self::Second,
            2 => Self::Third,
            _ => Self::Fourth,
        }
    }
}

const fn parts(rgb: u32) -> (u8, u8, u8) {
    let [_, red, green, blue] = rgb.to_be_bytes();
    (red, green, blue)
}

impl Series {
    /// A line.
    pub fn line(label: &str, colour: Colour, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), colour, form: Form::Line, points }
    }

    /// In another form.
    #[must_use]
    pub fn drawn(self, form: Form) -> Self {
        Self { form, ..self }
    }
}

impl Panel {
    /// Axes from the data.
    pub fn new(x: &str, y: &str, series: Vec<Series>) -> Self {
        Self { x: x.into(), y: y.into(), range: Range::default(), legend: Corner::default(), series }
    }

    /// Ends of both axes: given, or those of the data with a margin.
    #[cfg(any(test, feature = "charts"))]
    fn bounds(&self) -> ((f64, f64), (f64, f64)) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = self.range.x.unwrap_or_else(|| {
            let bars = self.series.iter().any(|series| series.form == Form::Bars);
            let margin = if bars { 0.5 } else { 0.0 };
            let low = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
            let high = points().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
            if low < high { (low - margin, high + margin) } else { (0.0, 1.0) }
        });
        let y = self.range.y.unwrap_or_else(|| {
            let high = points().map(|p| p.1).fold(0.0, f64::max);
            // Room for the legend.
            let margin = if self.series.iter().any(|series| !series.label.is_empty()) { 1.25 } else { 1.08 };
            (0.0, if high > 0.0 { high * margin } else { 1.0 })
        });
        (x, y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_the_data() {
        let points = vec![(2.0, 5.0), (4.0, 50.0)];
        let panel = Panel::new("x", "y", vec![Series::line("a", Colour::Up, points)]);
        assert_eq!(panel.bounds(), ((2.0, 4.0), (0.0, 62.5)));
        assert_eq!(Panel::new("x", "y", Vec::new()).bounds(), ((0.0, 1.0), (0.0, 1.0)));
    }

    #[test]
    fn directions_keep_their_colours_apart() {
        assert_ne!(Colour::Up.rgb(), Colour::Down.rgb());
        assert_ne!(Colour::of_family(2), Colour::of_family(3));
    }
}
