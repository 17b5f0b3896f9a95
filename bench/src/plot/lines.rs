//! How something grows: a line for each who does it, over sizes.

use super::scale::{Scale, short};
use super::sheet::{Anchor, Sheet, WIDTH};
use super::{Series, classes};

const LEFT: f64 = 78.0;
/// Where the lines end and the legend begins.
const RIGHT: f64 = WIDTH - 345.0;
const TOP: f64 = 76.0;
const LEGEND_STEP: f64 = 24.0;

/// A size that was measured.
#[derive(Debug, Clone)]
pub struct Stop {
    /// How large.
    pub size: f64,
    /// How that is written.
    pub label: String,
}

impl Stop {
    /// A stop whose size is written as a number.
    pub fn of(size: usize) -> Stop {
        Stop { size: size as f64, label: crate::table::thousands(size as f64) }
    }
}

/// A picture of lines.
#[derive(Debug)]
pub struct Lines<'a> {
    /// What it shows.
    pub title: &'a str,
    /// What the sizes are of.
    pub across: &'a str,
    /// What the figures are.
    pub upwards: &'a str,
    /// The sizes.
    pub stops: Vec<Stop>,
    /// The lines.
    pub series: Vec<Series>,
}

impl Lines<'_> {
    /// Draws.
    pub fn draw(&self) -> String {
        let legend = TOP + LEGEND_STEP * self.series.len() as f64;
        let bottom = legend.max(TOP + 280.0);
        let mut sheet = Sheet::new(self.title, bottom + 62.0);
        let x = Scale::between(self.stops.iter().map(|it| it.size), (LEFT, RIGHT));
        let figures = self.series.iter().flat_map(|it| it.figures.iter().flatten().copied());
        let y = Scale::around(figures, (bottom, TOP));
        for mark in y.marks() {
            sheet.grid((LEFT, y.at(mark)), (RIGHT, y.at(mark)));
            sheet.quiet((LEFT - 8.0, y.at(mark) + 4.0), Anchor::End, &short(mark));
        }
        for stop in &self.stops {
            sheet.grid((x.at(stop.size), bottom), (x.at(stop.size), bottom + 5.0));
            sheet.quiet((x.at(stop.size), bottom + 21.0), Anchor::Middle, &stop.label);
        }
        sheet.quiet((20.0, 54.0), Anchor::Start, self.upwards);
        sheet.quiet(((LEFT + RIGHT) / 2.0, bottom + 45.0), Anchor::Middle, self.across);
        let classes = classes(&self.series);
        for (series, class) in self.series.iter().zip(&classes) {
            let points: Vec<(f64, f64)> = self
                .stops
                .iter()
                .zip(&series.figures)
                .filter_map(|(stop, figure)| Some((stop.size, figure.filter(|it| *it > 0.0)?)))
                .map(|(size, figure)| (x.at(size), y.at(figure)))
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
