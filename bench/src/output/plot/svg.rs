//! The sheet that a picture is drawn on: its style for light and dark, its title, and the shapes of SVG.
//! No scripts, no fonts of its own, nothing from elsewhere.

use std::fmt::Write;

/// How many colours there are for others than ours.
pub const COLOURS: usize = 8;

/// How wide every sheet is.
pub const WIDTH: f64 = 940.0;

const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif;fill:#24292f}
.t{font-size:17px;font-weight:600}.q{fill:#57606a;font-size:12px}.e{text-anchor:end}.m{text-anchor:middle}
.g{stroke:#d0d7de;stroke-width:1}.b{fill:#ffffff}
polyline{fill:none;stroke-width:1.8;stroke-linejoin:round}
.ours{stroke:#cf222e;fill:#cf222e}polyline.ours{stroke-width:3.4}
.floor{stroke:#6e7781;fill:#6e7781}polyline.floor{stroke-dasharray:6 4}
.c0{stroke:#0969da;fill:#0969da}.c1{stroke:#1a7f37;fill:#1a7f37}.c2{stroke:#9a6700;fill:#9a6700}
.c3{stroke:#8250df;fill:#8250df}.c4{stroke:#bf3989;fill:#bf3989}.c5{stroke:#1b7c83;fill:#1b7c83}
.c6{stroke:#bc4c00;fill:#bc4c00}.c7{stroke:#4d5a66;fill:#4d5a66}
polyline.ours,polyline.floor,polyline.c0,polyline.c1,polyline.c2,polyline.c3,polyline.c4,polyline.c5,polyline.c6,polyline.c7{fill:none}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.q{fill:#9198a1}.g{stroke:#30363d}.b{fill:#0d1117}
.ours{stroke:#ff7b72;fill:#ff7b72}.floor{stroke:#9198a1;fill:#9198a1}
.c0{stroke:#58a6ff;fill:#58a6ff}.c1{stroke:#3fb950;fill:#3fb950}.c2{stroke:#d29922;fill:#d29922}
.c3{stroke:#bc8cff;fill:#bc8cff}.c4{stroke:#f778ba;fill:#f778ba}.c5{stroke:#39c5cf;fill:#39c5cf}
.c6{stroke:#ffa657;fill:#ffa657}.c7{stroke:#b1bac4;fill:#b1bac4}
}
";

/// Where a text begins, ends or has its middle.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A sheet that is being drawn on.
#[derive(Debug)]
pub struct Svg {
    text: String,
}

impl Svg {
    /// A sheet with a title.
    pub fn new(title: &str, height: f64) -> Svg {
        let (width, title) = (WIDTH, escape_xml(title));
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n"
        );
        add(&mut text, format_args!("<rect class=\"b\" width=\"{width}\" height=\"{height}\"/>"));
        add(&mut text, format_args!("<text class=\"t\" x=\"20\" y=\"30\">{title}</text>"));
        Svg { text }
    }

    /// The picture.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    /// A line of the grid.
    pub fn grid(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        add(
            &mut self.text,
            format_args!(
                "<line class=\"g\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
            ),
        );
    }

    /// A text that names something.
    pub fn label(&mut self, at: (f64, f64), anchor: Anchor, label: &str) {
        self.write("", at, anchor, label);
    }

    /// A text that is there to be looked up.
    pub fn secondary_label(&mut self, at: (f64, f64), anchor: Anchor, label: &str) {
        self.write("q", at, anchor, label);
    }

    fn write(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, label: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => "m",
            Anchor::End => "e",
        };
        let class = [class, anchor].join(" ");
        let (class, label) = (class.trim(), escape_xml(label));
        add(
            &mut self.text,
            format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{label}</text>"),
        );
    }

    /// A line through points.
    pub fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        add(&mut self.text, format_args!("<polyline class=\"{class}\" points=\"{points}\"/>"));
    }

    /// A point.
    pub fn dot(&mut self, class: &str, (x, y): (f64, f64)) {
        let dot = format_args!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>");
        add(&mut self.text, dot);
    }

    /// A bar from its upper left corner.
    pub fn bar(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        add(
            &mut self.text,
            format_args!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
            ),
        );
    }
}

fn add(text: &mut String, shape: std::fmt::Arguments<'_>) {
    writeln!(text, "{shape}").expect("memory takes everything");
}

/// Text as XML has it.
fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
