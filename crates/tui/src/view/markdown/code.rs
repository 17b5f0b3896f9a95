//! Syntax highlighting. The grammars are loaded on a thread when the first code block is shown; until then code is plain.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use syntect::easy::HighlightLines;
use syntect::highlighting::{FontStyle, Theme};
use syntect::parsing::SyntaxSet;
use tokio::sync::Notify;
use two_face::theme::EmbeddedThemeName;

use crate::text::wrap::{Margin, wrap};
use crate::theme::{Palette, ScreenTheme, Tone};

/// The longest highlighted line: grammars are slow on longer ones.
const MAX_LINE_BYTES: usize = 1000;
/// The most highlighted lines.
const MAX_LINES: usize = 3000;
/// The margin in front of code.
const INDENT: &str = "  ";

struct Highlighter {
    syntaxes: SyntaxSet,
    /// A theme of the terminal's sixteen colours, which fits dark and light terminals.
    theme: Theme,
}

static HIGHLIGHTER: OnceLock<Highlighter> = OnceLock::new();
static IS_LOADING: AtomicBool = AtomicBool::new(false);
static LOADED: Notify = Notify::const_new();

/// The version of the highlighter: a layout of an older version is out of date.
pub fn highlighter_version(palette: Palette) -> u64 {
    match palette {
        Palette::Plain => 0,
        Palette::Dark | Palette::Light => u64::from(HIGHLIGHTER.get().is_some()),
    }
}

/// Returns when the highlighter has been loaded.
pub async fn highlighter_loaded() {
    LOADED.notified().await;
}

fn highlighter(palette: Palette) -> Option<&'static Highlighter> {
    if palette == Palette::Plain {
        return None;
    }
    let found = HIGHLIGHTER.get();
    if found.is_none() && !IS_LOADING.swap(true, Ordering::Relaxed) {
        let load = || {
            let syntaxes = two_face::syntax::extra_newlines();
            let theme = two_face::theme::extra().get(EmbeddedThemeName::Ansi).clone();
            let _first = HIGHLIGHTER.set(Highlighter { syntaxes, theme });
            LOADED.notify_one();
        };
        let _stays_plain = std::thread::Builder::new().name("grammars".to_owned()).spawn(load);
    }
    found
}

/// A code block that is laid out and may still grow.
pub struct StreamedCode {
    language: String,
    width: usize,
    /// Its laid out lines.
    source: Vec<String>,
    lines: Vec<Line<'static>>,
    highlighter: Option<HighlightLines<'static>>,
}

impl fmt::Debug for StreamedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeInProgress").field("lines", &self.source.len()).finish_non_exhaustive()
    }
}

impl StreamedCode {
    fn new(language: &str, width: usize, theme: &ScreenTheme) -> StreamedCode {
        let highlighter = highlighter(theme.palette).and_then(|it| {
            let token = language.split([',', ' ', '{']).next().unwrap_or_default();
            let syntax = it.syntaxes.find_syntax_by_token(token)?;
            Some(HighlightLines::new(syntax, &it.theme))
        });
        StreamedCode {
            language: language.to_owned(),
            width,
            source: Vec::new(),
            lines: Vec::new(),
            highlighter,
        }
    }

    fn is_prefix_of(&self, language: &str, width: usize, text: &str) -> bool {
        let mut lines = text.lines();
        let is_same = self.source.iter().all(|it| lines.next() == Some(it.as_str()));
        self.language == language && self.width == width && is_same
    }

    fn push_line(&mut self, line: &str, theme: &ScreenTheme) {
        let spans = match (&mut self.highlighter, HIGHLIGHTER.get()) {
            (Some(painter), Some(grammars))
                if line.len() <= MAX_LINE_BYTES && self.source.len() < MAX_LINES =>
            {
                highlight_line(painter, grammars, line)
            }
            (_, _) => vec![Span::styled(line.to_owned(), plain_style(theme))],
        };
        self.lines.extend(wrap(&spans, self.width, &Margin::all(Span::raw(INDENT))));
        self.source.push(line.to_owned());
    }
}

/// The lines of a code block. Lines in `before` that are unchanged are reused.
pub fn lines(
    language: &str,
    text: &str,
    (width, theme): (usize, &ScreenTheme),
    before: &mut Option<StreamedCode>,
) -> Vec<Line<'static>> {
    let mut code = match before.take() {
        Some(code) if code.is_prefix_of(language, width, text) => code,
        Some(_) | None => StreamedCode::new(language, width, theme),
    };
    // The last line may be incomplete, so it is not reused.
    let whole =
        if text.ends_with('\n') { text.len() } else { text.rfind('\n').map_or(0, |it| it + 1) };
    let (whole, rest) = text.split_at(whole);
    let known = code.source.len();
    for line in whole.lines().skip(known) {
        code.push_line(line, theme);
    }
    let mut lines = code.lines.clone();
    if !rest.is_empty() {
        let spans = [Span::styled(rest.to_owned(), plain_style(theme))];
        lines.extend(wrap(&spans, width, &Margin::all(Span::raw(INDENT))));
    }
    *before = Some(code);
    lines
}

fn plain_style(theme: &ScreenTheme) -> Style {
    match theme.palette {
        Palette::Plain => theme.style(Tone::Text),
        Palette::Dark | Palette::Light => theme.style(Tone::Code),
    }
}

fn highlight_line(
    painter: &mut HighlightLines<'static>,
    grammars: &Highlighter,
    line: &str,
) -> Vec<Span<'static>> {
    let with_end = format!("{line}\n");
    let Ok(pieces) = painter.highlight_line(&with_end, &grammars.syntaxes) else {
        return vec![Span::raw(line.to_owned())];
    };
    let span = |(style, text): (syntect::highlighting::Style, &str)| {
        Span::styled(text.trim_end_matches('\n').to_owned(), to_span_style(style))
    };
    pieces.into_iter().map(span).filter(|it| !it.content.is_empty()).collect()
}

fn to_span_style(style: syntect::highlighting::Style) -> Style {
    let mut shown = Style::default();
    let colour = style.foreground;
    shown = match colour.a {
        // How the theme encodes a terminal colour, and the default colour.
        0 => shown.fg(Color::Indexed(colour.r)),
        1 => shown,
        _ => shown.fg(Color::Rgb(colour.r, colour.g, colour.b)),
    };
    for (font, modifier) in [
        (FontStyle::BOLD, Modifier::BOLD),
        (FontStyle::ITALIC, Modifier::ITALIC),
        (FontStyle::UNDERLINE, Modifier::UNDERLINED),
    ] {
        if style.font_style.contains(font) {
            shown = shown.add_modifier(modifier);
        }
    }
    shown
}
