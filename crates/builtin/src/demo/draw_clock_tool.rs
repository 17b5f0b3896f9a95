//! The tool `draw_clock`: draws a clock face as a grayscale picture.

use schemars::JsonSchema;
use serde::Deserialize;

use super::png::gray_png;
use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;

/// Width and height in pixels.
const SIZE: u16 = 160;

#[derive(Deserialize, JsonSchema)]
struct DrawClockArguments {
    #[schemars(range(max = 23))]
    hour: u16,
    #[schemars(range(max = 59))]
    minute: u16,
}

pub(crate) fn draw_clock_tool() -> Tool {
    Tool::typed("draw_clock", "Draws a picture of a clock that shows a time.", draw).read_only()
}

async fn draw(_: HandlerContext, it: DrawClockArguments) -> Result<ToolOutput, HandlerError> {
    if it.hour > 23 || it.minute > 59 {
        return Err(HandlerError::failed("invalid time of day"));
    }
    Ok(ToolOutput::image(&gray_png(&render_clock_face(it.hour, it.minute), SIZE), "image/png"))
}

/// A line from one point to another.
struct Stroke {
    from: (f64, f64),
    to: (f64, f64),
    width: f64,
}

impl Stroke {
    /// A line on a ray from the center. `turn` is the angle as a fraction of a full turn, from 12 o'clock.
    fn on_ray(turn: f64, from: f64, to: f64, width: f64) -> Stroke {
        let (sin, cos) = (turn * std::f64::consts::TAU).sin_cos();
        let at = |distance: f64| (sin * distance, -cos * distance);
        Stroke { from: at(from), to: at(to), width }
    }

    /// How much of a pixel the line covers, from 0 to 1.
    fn covers(&self, point: (f64, f64)) -> f64 {
        let (dx, dy) = (self.to.0 - self.from.0, self.to.1 - self.from.1);
        let (px, py) = (point.0 - self.from.0, point.1 - self.from.1);
        let along = ((px * dx + py * dy) / (dx * dx + dy * dy)).clamp(0.0, 1.0);
        let distance = (px - along * dx).hypot(py - along * dy);
        (self.width / 2.0 + 0.5 - distance).clamp(0.0, 1.0)
    }
}

/// The pixels row by row: 0 is black, 255 white.
fn render_clock_face(hour: u16, minute: u16) -> Vec<u8> {
    let radius = f64::from(SIZE) / 2.0 - 4.0;
    let minutes = f64::from(minute) / 60.0;
    let mut strokes: Vec<Stroke> = (0u8..12)
        .map(|it| Stroke::on_ray(f64::from(it) / 12.0, radius * 0.86, radius * 0.95, 2.5))
        .collect();
    let hours = (f64::from(hour % 12) + minutes) / 12.0;
    strokes.push(Stroke::on_ray(hours, 0.0, radius * 0.5, 6.0));
    strokes.push(Stroke::on_ray(minutes, 0.0, radius * 0.78, 3.5));
    let center = f64::from(SIZE - 1) / 2.0;
    let mut pixels = Vec::with_capacity(usize::from(SIZE) * usize::from(SIZE));
    for y in 0..SIZE {
        for x in 0..SIZE {
            let point = (f64::from(x) - center, f64::from(y) - center);
            let rim = (2.0 - (point.0.hypot(point.1) - radius).abs()).clamp(0.0, 1.0);
            let coverage = strokes.iter().map(|it| it.covers(point)).fold(rim, f64::max);
            pixels.push(gray_level(coverage));
        }
    }
    pixels
}

/// The gray level for a coverage from 0 to 1.
fn gray_level(coverage: f64) -> u8 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "what is covered is between 0 and 1"
    )]
    let shade = (255.0 * (1.0 - coverage)).round() as u8;
    shade
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_face_shows_its_hands() {
        let at = |pixels: &[u8], x: usize, y: usize| pixels[y * usize::from(SIZE) + x];
        let six = render_clock_face(6, 0);
        assert_eq!((at(&six, 80, 40), at(&six, 80, 110), at(&six, 40, 80)), (0, 0, 255));
        let quarter = render_clock_face(9, 15);
        assert_eq!((at(&quarter, 120, 80), at(&quarter, 80, 40)), (0, 255));
        assert_eq!(six.len(), 160 * 160);
    }
}
