//! How something grows: a line for each who does it, over sizes.

use super::scale::{Scale, short};
use super::svg::{Anchor, Svg, WIDTH};
use super::{Series, classes};

const LEFT: f64 = 78.0;
/// Where the lines end and the legend begins.
const RIGHT: f64 = WIDTH - 345.0;
const TOP: f64 = 76.0;
const LEGEND_STEP: f64 = 24.0;

/// A size that was measured.
#[derive(Debug, Clone)]
pub struct Tick {
    /// How large.
    pub size: f64,
    /// How that is written.
    pub label: String,
}

impl Tick {
    /// A stop whose size is written as a number.
    pub fn of(size: usize) -> Tick {
        Tick { size: size as f64, label: crate::output::table::thousands(size as f64) }
    }
}

/// A picture of lines.
#[derive(Debug)]
pub struct Lines<'a> {
    /// What it shows.
    pub title: &'a str,
    /// What the sizes are of.
    pub x_axis: &'a str,
    /// What the figures are.
    pub y_axis: &'a str,
    /// The sizes.
    pub ticks: Vec<Tick>,
    /// The lines.
    pub series: Vec<Series>,
}

impl Lines<'_> {
    /// Draws.
    pub fn draw(&self) -> String {
        let legend = TOP + LEGEND_STEP * self.series.len() as f64;
        let bottom = legend.max(TOP + 280.0);
        let mut sheet = Svg::new(self.title, bottom + 62.0);
        let x = Scale::with_margin(self.ticks.iter().map(|it| it.size), (LEFT, RIGHT));
        let figures = self.series.iter().flat_map(|it| it.figures.iter().flatten().copied());
        let y = Scale::rounded(figures, (bottom, TOP));
        for mark in y.marks() {
            sheet.grid((LEFT, y.position(mark)), (RIGHT, y.position(mark)));
            sheet.secondary_label((LEFT - 8.0, y.position(mark) + 4.0), Anchor::End, &short(mark));
        }
        for tick in &self.ticks {
            sheet.grid((x.position(tick.size), bottom), (x.position(tick.size), bottom + 5.0));
            sheet.secondary_label(
                (x.position(tick.size), bottom + 21.0),
                Anchor::Middle,
                &tick.label,
            );
        }
        sheet.secondary_label((20.0, 54.0), Anchor::Start, self.y_axis);
        sheet.secondary_label(((LEFT + RIGHT) / 2.0, bottom + 45.0), Anchor::Middle, self.x_axis);
        let classes = classes(&self.series);
        for (series, class) in self.series.iter().zip(&classes) {
            let points: Vec<(f64, f64)> = self
                .ticks
                .iter()
                .zip(&series.figures)
                .filter_map(|(tick, figure)| Some((tick.size, figure.filter(|it| *it > 0.0)?)))
                .map(|(size, figure)| (x.position(size), y.position(figure)))
                .collect();
            sheet.line(class, &points);
            points.iter().for_each(|it| sheet.dot(class, *it));
        }
        for (place, (series, class)) in self.by_height().into_iter().enumerate() {
            let y = TOP + 4.0 + LEGEND_STEP * place as f64;
            let class = &classes[class];
            sheet.line(class, &[(RIGHT + 24.0, y), (RIGHT + 48.0, y)]);
            sheet.dot(class, (RIGHT + 36.0, y));
            sheet.label((RIGHT + 56.0, y + 4.0), Anchor::Start, &series.label);
        }
        sheet.finish()
    }

    /// The lines in the order in which they end, the highest first, so that the legend reads like the picture.
    fn by_height(&self) -> Vec<(&Series, usize)> {
        let end = |series: &Series| series.figures.iter().rev().flatten().next().copied();
        let mut order: Vec<(&Series, usize)> = self.series.iter().zip(0..).collect();
        order.sort_by(|(one, _), (other, _)| {
            end(other).unwrap_or(0.0).total_cmp(&end(one).unwrap_or(0.0))
        });
        order
    }
}
