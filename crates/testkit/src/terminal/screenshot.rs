//! Screenshots of a terminal as SVG with selectable text: one screen, or an animation of several.

use std::fmt::Write;
use std::time::Duration;

use vt100::{Cell, Color, Screen};

/// The size of a cell in SVG units.
const CELL_SIZE: (u32, u32) = (84, 180);
/// The margin around the screen.
const MARGIN: u32 = 140;
/// The baseline of text in a cell.
const BASELINE: u32 = 136;
const BACKGROUND: &str = "#171b24";
const FOREGROUND: &str = "#d7dce5";
/// The 16 ANSI colours on this background.
const ANSI_COLOURS: [&str; 16] = [
    "#2b3140", "#f07178", "#98c379", "#e5c07b", "#61afef", "#c792ea", "#56c8d8", "#c8cfdb",
    "#77819a", "#ff8b92", "#b5e08c", "#ffd58a", "#82c4ff", "#ddb0ff", "#7fe3f0", "#ffffff",
];

/// The screen at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screenshot {
    columns: u32,
    rows: u32,
    body: String,
}

/// The style of a run of cells.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CellStyle {
    foreground: String,
    background: Option<String>,
    class_attribute: &'static str,
}

impl Screenshot {
    /// Captures a screen.
    pub(crate) fn capture(screen: &Screen) -> Screenshot {
        let (rows, columns) = screen.size();
        let mut body = String::new();
        for row in 0..rows.get() {
            let mut column = 0;
            while column < columns.get() {
                let Some(cell) = screen.cell(row, column) else { break };
                let cell_style = CellStyle::from_cell(cell);
                let start = column;
                let mut text = String::new();
                while let Some(cell) = screen.cell(row, column)
                    && column < columns.get()
                    && (cell.is_wide_continuation() || CellStyle::from_cell(cell) == cell_style)
                {
                    if !cell.is_wide_continuation() {
                        text.push_str(if cell.has_contents() { cell.contents() } else { " " });
                    }
                    column += 1;
                }
                let position = (u32::from(start), u32::from(row), u32::from(column - start));
                cell_style.write(&mut body, position, &text);
            }
        }
        Screenshot { columns: columns.get().into(), rows: rows.get().into(), body }
    }

    /// The screenshot as SVG.
    pub fn to_svg(&self) -> String {
        self.svg_document("", &self.body)
    }

    /// An animated SVG that repeats the screenshots, each for its time. All have the same size.
    ///
    /// # Panics
    ///
    /// Panics if there are no screenshots.
    pub fn to_animated_svg(screenshots: &[(Screenshot, Duration)]) -> String {
        let all: u128 = screenshots.iter().map(|(_, time)| time.as_millis()).sum();
        let percent =
            |time: u128| format!("{}.{:02}%", time * 100 / all, time * 10_000 / all % 100);
        let (mut style, mut body) = (String::new(), String::new());
        let mut elapsed = 0;
        for (number, (screenshot, time)) in screenshots.iter().enumerate() {
            let (from, to) = (percent(elapsed), percent(elapsed + time.as_millis()));
            elapsed += time.as_millis();
            let seconds = format!("{}.{:03}s", all / 1000, all % 1000);
            let _infallible = writeln!(
                style,
                "@keyframes k{number}{{0%{{opacity:0}}{from}{{opacity:1}}{to}{{opacity:0}}100%{{opacity:0}}}}\n\
                 #f{number}{{opacity:0;animation:k{number} {seconds} step-end infinite}}",
            );
            let _infallible = writeln!(body, "<g id=\"f{number}\">\n{}</g>", screenshot.body);
        }
        let (first, _) = screenshots.first().expect("a film has pictures");
        // With reduced motion, only the last one is visible.
        let last = screenshots.len() - 1;
        let _infallible = writeln!(
            style,
            "@media (prefers-reduced-motion:reduce){{g{{animation:none!important}}#f{last}{{opacity:1}}}}"
        );
        first.svg_document(&style, &body)
    }

    fn svg_document(&self, style: &str, body: &str) -> String {
        let width = self.columns * CELL_SIZE.0 + 2 * MARGIN;
        let height = self.rows * CELL_SIZE.1 + 2 * MARGIN;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 {width} {height}\" width=\"{}\" height=\"{}\">\n\
             <style>\ntext{{font:140px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:{FOREGROUND}}}\n\
             .b{{font-weight:700}}.d{{opacity:.6}}.i{{font-style:italic}}.u{{text-decoration:underline}}\n{style}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"100\" fill=\"{BACKGROUND}\"/>\n\
             <g transform=\"translate({MARGIN} {MARGIN})\">\n{body}</g>\n</svg>\n",
            width / 10,
            height / 10,
        )
    }
}

impl CellStyle {
    fn from_cell(cell: &Cell) -> CellStyle {
        let (mut foreground, mut background) =
            (svg_colour(cell.fgcolor()), svg_colour(cell.bgcolor()));
        if cell.inverse() {
            let swapped = background.unwrap_or_else(|| BACKGROUND.to_owned());
            background = Some(foreground.unwrap_or_else(|| FOREGROUND.to_owned()));
            foreground = Some(swapped);
        }
        let class_attribute = match (cell.bold(), cell.dim(), cell.italic(), cell.underline()) {
            (true, _, _, _) => " class=\"b\"",
            (false, true, _, _) => " class=\"d\"",
            (false, false, true, _) => " class=\"i\"",
            (false, false, false, true) => " class=\"u\"",
            (false, false, false, false) => "",
        };
        CellStyle {
            foreground: foreground.unwrap_or_else(|| FOREGROUND.to_owned()),
            background,
            class_attribute,
        }
    }

    fn write(&self, body: &mut String, (column, row, cells): (u32, u32, u32), text: &str) {
        let (x, y) = (column * CELL_SIZE.0, row * CELL_SIZE.1);
        if let Some(background) = &self.background {
            let (width, height) = (cells * CELL_SIZE.0, CELL_SIZE.1);
            let _infallible = writeln!(
                body,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{background}\"/>"
            );
        }
        // Leading and trailing spaces of a run are not written.
        let trimmed = text.trim_end();
        let begins = trimmed.trim_start();
        if begins.is_empty() {
            return;
        }
        let skipped = u32::try_from(trimmed.len() - begins.len()).unwrap_or(0);
        let trailing = u32::try_from(text.len() - trimmed.len()).unwrap_or(0);
        let x = x + skipped * CELL_SIZE.0;
        let length = (cells - skipped - trailing) * CELL_SIZE.0;
        let fill = if self.foreground == FOREGROUND {
            String::new()
        } else {
            format!(" style=\"fill:{}\"", self.foreground)
        };
        let _infallible = writeln!(
            body,
            "<text x=\"{x}\" y=\"{}\" textLength=\"{length}\"{}{fill}>{}</text>",
            y + BASELINE,
            self.class_attribute,
            escape_xml(begins)
        );
    }
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The SVG colour; `None` for the terminal's default.
fn svg_colour(colour: Color) -> Option<String> {
    match colour {
        Color::Default => None,
        Color::Idx(number @ 0..=15) => Some(ANSI_COLOURS[usize::from(number)].to_owned()),
        // xterm's table: a 6×6×6 cube, then greys.
        Color::Idx(number @ 16..=231) => {
            let step = |it: u8| if it == 0 { 0 } else { 55 + it * 40 };
            let number = number - 16;
            let (red, green, blue) = (step(number / 36), step(number / 6 % 6), step(number % 6));
            Some(format!("#{red:02x}{green:02x}{blue:02x}"))
        }
        Color::Idx(number) => {
            let grey = 8 + (number - 232) * 10;
            Some(format!("#{grey:02x}{grey:02x}{grey:02x}"))
        }
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
    }
}
