//! Several next to each other: a bar for each, in groups, with its figure at its end.

use super::scale::{Scale, short};
use super::svg::{Anchor, Svg, WIDTH};
use super::{Series, classes};

const LEFT: f64 = 290.0;
const RIGHT: f64 = WIDTH - 90.0;
const TOP: f64 = 92.0;
const THICK: f64 = 15.0;
const APART: f64 = 11.0;
/// How wide a character of the legend is, about.
const CHARACTER: f64 = 7.4;

/// A picture of bars.
#[derive(Debug)]
pub struct Bars<'a> {
    /// What it shows.
    pub title: &'a str,
    /// What the figures are.
    pub x_axis: &'a str,
    /// The names of bars that belong together, from above.
    pub groups: Vec<String>,
    /// The bars of each colour.
    pub series: Vec<Series>,
}

impl Bars<'_> {
    /// Draws.
    pub fn draw(&self) -> String {
        let group = THICK * self.series.len() as f64 + APART;
        let bottom = TOP + group * self.groups.len() as f64;
        let mut sheet = Svg::new(self.title, bottom + 58.0);
        let figures = self.series.iter().flat_map(|it| it.figures.iter().flatten().copied());
        // A bar that is the least of all still has to be seen.
        let figures: Vec<f64> = figures.collect();
        let least = figures.iter().map(|it| it / 2.0);
        let x = Scale::rounded(figures.iter().copied().chain(least), (LEFT, RIGHT));
        for mark in x.marks() {
            sheet.grid((x.position(mark), TOP - 6.0), (x.position(mark), bottom));
            sheet.secondary_label((x.position(mark), bottom + 18.0), Anchor::Middle, &short(mark));
        }
        sheet.secondary_label(((LEFT + RIGHT) / 2.0, bottom + 42.0), Anchor::Middle, self.x_axis);
        let classes = classes(&self.series);
        for (place, name) in self.groups.iter().enumerate() {
            let y = TOP + group * place as f64;
            let middle = y + THICK * self.series.len() as f64 / 2.0 + 4.5;
            sheet.label((LEFT - 10.0, middle), Anchor::End, &name.replace(['*', '`'], ""));
            for (at, (series, class)) in self.series.iter().zip(&classes).enumerate() {
                let y = y + THICK * at as f64;
                match series.figures.get(place).copied().flatten().filter(|it| *it > 0.0) {
                    Some(figure) => {
                        sheet.bar(class, (LEFT, y), (x.position(figure) - LEFT, THICK - 2.0));
                        let end = (x.position(figure) + 6.0, y + THICK - 4.0);
                        sheet.secondary_label(end, Anchor::Start, &short(figure));
                    }
                    None => {
                        sheet.secondary_label((LEFT + 6.0, y + THICK - 4.0), Anchor::Start, "–")
                    }
                }
            }
        }
        self.legend(&mut sheet, &classes);
        sheet.finish()
    }

    /// One line above the bars. Bars of one colour need none.
    fn legend(&self, sheet: &mut Svg, classes: &[String]) {
        if self.series.len() < 2 {
            return;
        }
        let mut x = 20.0;
        for (series, class) in self.series.iter().zip(classes) {
            sheet.bar(class, (x, 52.0), (12.0, 12.0));
            sheet.label((x + 18.0, 63.0), Anchor::Start, &series.label);
            x += 40.0 + CHARACTER * series.label.chars().count() as f64;
        }
    }
}
