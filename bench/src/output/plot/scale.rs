//! Where figures lie on an axis, where its marks are, and how they are written.

use crate::output::table::thousands;

/// A logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// An axis from one place to another that holds all of these figures, from mark to mark.
    pub fn rounded(figures: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Scale {
        let (least, most) = limits(figures);
        let least = steps().rev().find(|it| *it <= least * 1.000_001).unwrap_or(least);
        let most = steps().find(|it| *it >= most * 0.999_999).unwrap_or(most);
        let most = if most > least { most } else { least * 10.0 };
        Scale { least, most, from, to }
    }

    /// An axis that begins and ends a little outside of the first and the last of these figures.
    pub fn with_margin(figures: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Scale {
        let (least, most) = limits(figures);
        let most = if most > least { most } else { least * 10.0 };
        let margin = (most / least).powf(0.04);
        Scale { least: least / margin, most: most * margin, from, to }
    }

    /// Where a figure lies.
    pub fn position(&self, figure: f64) -> f64 {
        let share = (figure / self.least).ln() / (self.most / self.least).ln();
        self.from + share * (self.to - self.from)
    }

    /// The figures that have a mark: powers of ten, and what is between them where those are few.
    pub fn marks(&self) -> Vec<f64> {
        let within = |it: &f64| *it >= self.least * 0.999_999 && *it <= self.most * 1.000_001;
        let all: Vec<f64> = steps().filter(within).collect();
        if all.len() <= 7 {
            return all;
        }
        let tens: Vec<f64> = all.into_iter().filter(|it| is_power_of_ten(*it)).collect();
        let every = tens.len().div_ceil(8);
        tens.into_iter().step_by(every).collect()
    }
}

fn limits(figures: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = figures
        .filter(|it| it.is_finite() && *it > 0.0)
        .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), it| (least.min(it), most.max(it)));
    if least.is_finite() { (least, most) } else { (1.0, 10.0) }
}

/// One, two and five times every power of ten that a figure of ours could have.
fn steps() -> impl DoubleEndedIterator<Item = f64> {
    (-6..=12).flat_map(|power| [1.0, 2.0, 5.0].map(|it| it * 10f64.powi(power)))
}

fn is_power_of_ten(figure: f64) -> bool {
    let power = figure.log10();
    (power - power.round()).abs() < 1e-6
}

/// A figure in few characters.
pub fn short(figure: f64) -> String {
    let plain = |figure: f64, digits: usize| {
        let text = format!("{figure:.digits$}");
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    };
    match figure {
        it if it >= 1e6 => format!("{} M", plain(it / 1e6, 1)),
        it if it >= 100.0 => thousands(it),
        it if it >= 10.0 => plain(it, 1),
        it if it >= 0.1 => plain(it, 2),
        it => plain(it, 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_marks_are_round_and_of_moderate_number() {
        let marks = |figures: &[f64]| {
            Scale::rounded(figures.iter().copied(), (0.0, 1.0))
                .marks()
                .into_iter()
                .map(short)
                .collect::<Vec<_>>()
        };
        assert_eq!(marks(&[3.0, 40.0]), ["2", "5", "10", "20", "50"]);
        assert_eq!(marks(&[7.0, 90_000.0]), ["10", "100", "1,000", "10,000", "100,000"]);
        assert_eq!(marks(&[10.0]), ["10", "20", "50", "100"]);
        assert_eq!(marks(&[]), ["1", "2", "5", "10"]);
    }

    #[test]
    fn a_value_is_placed_by_its_logarithm() {
        let scale = Scale::rounded([1.0, 100.0].into_iter(), (300.0, 100.0));
        assert_eq!([1.0, 10.0, 100.0].map(|it| scale.position(it).round()), [300.0, 200.0, 100.0]);
    }

    #[test]
    fn figures_are_short() {
        let figures = [0.0123, 0.456, 7.0, 12.34, 345.6, 12_345.0, 1_500_000.0];
        assert_eq!(figures.map(short), ["0.0123", "0.46", "7", "12.3", "346", "12,345", "1.5 M"]);
    }
}
