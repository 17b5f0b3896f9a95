//! Pictures of measurements as SVG: lines that show growth, and bars that stand next to each other.
//! Axes are logarithmic, because what is compared here differs by factors. The same figures give the same bytes.

mod bars;
mod lines;
mod scale;
mod svg;

#[cfg(test)]
mod golden;

pub use bars::Bars;
pub use lines::{Lines, Tick};

/// The role of a series, which decides how it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Switchboard: the thickest line, and always the same colour.
    Ours,
    /// A lower bound or a budget: dashed and grey.
    Baseline,
    /// A third-party program, or a further series of Switchboard.
    Other,
}

/// One line, or the bars of one colour.
#[derive(Debug, Clone)]
pub struct Series {
    /// What the legend calls it.
    pub label: String,
    /// How it is drawn.
    pub role: Role,
    /// A figure for each stop or group, in their order; none where nothing was measured.
    pub figures: Vec<Option<f64>>,
}

impl Series {
    /// A series.
    pub fn new(label: &str, role: Role, figures: Vec<Option<f64>>) -> Series {
        // Pages mark ours with stars, and programs with ticks; pictures have colours.
        let label = label.replace(['*', '`'], "");
        Series { label, role, figures }
    }
}

/// The class that a series is drawn with: its colour, by its place among those that are neither ours nor a floor.
fn classes(series: &[Series]) -> Vec<String> {
    let mut others = 0;
    let class = |it: &Series| match it.role {
        Role::Ours => "ours".to_owned(),
        Role::Baseline => "floor".to_owned(),
        Role::Other => {
            others += 1;
            format!("c{}", (others - 1) % svg::COLOURS)
        }
    };
    series.iter().map(class).collect()
}
