//! Lays out one block of Markdown as lines, from the parser's events.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::OPTIONS;
use super::code::{self, StreamedCode};
use super::table::{MarkdownTable, TableCell};
use crate::text::wrap::{Margin, wrap};
use crate::theme::{GlyphSet, ScreenTheme, Tone};

/// The maximum width of a rule.
const MAX_RULE_WIDTH: usize = 40;
/// The deepest nesting that is indented.
const MAX_DEPTH: usize = 12;

/// The indentation of a list item or a quote.
struct Indent {
    first: Span<'static>,
    rest: Span<'static>,
    is_started: bool,
}

/// The layout in progress.
pub struct BlockLayout<'l> {
    theme: &'l ScreenTheme,
    width: usize,
    lines: Vec<Line<'static>>,
    indents: Vec<Indent>,
    /// The next number of each open list; `None` for a bullet list.
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    inline: Vec<Span<'static>>,
    links: Vec<(String, usize)>,
    code: Option<(String, String)>,
    table: Option<MarkdownTable>,
    row: Vec<TableCell>,
    /// Does the next block need an empty line before it?
    needs_gap: bool,
    in_progress: Option<&'l mut Option<StreamedCode>>,
}

impl<'l> BlockLayout<'l> {
    /// An empty layout.
    pub fn new(theme: &'l ScreenTheme, width: usize) -> BlockLayout<'l> {
        BlockLayout {
            theme,
            width: width.max(1),
            lines: Vec::new(),
            indents: Vec::new(),
            lists: Vec::new(),
            styles: vec![Style::default()],
            inline: Vec::new(),
            links: Vec::new(),
            code: None,
            table: None,
            row: Vec::new(),
            needs_gap: false,
            in_progress: None,
        }
    }

    /// An empty layout that may reuse the lines of a growing code block.
    pub fn with_streamed_code(self, before: &'l mut Option<StreamedCode>) -> BlockLayout<'l> {
        BlockLayout { in_progress: Some(before), ..self }
    }

    /// The lines of a block.
    pub fn lines(mut self, text: &str) -> Vec<Line<'static>> {
        for event in Parser::new_ext(text, OPTIONS) {
            self.on_event(event);
        }
        self.flush();
        self.lines
    }

    fn on_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.push(&text, self.style()),
            },
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                let style = self.style().patch(self.theme.style(Tone::Code));
                self.push(&text, style);
            }
            Event::Html(text) => {
                for line in text.lines() {
                    self.push(line, self.theme.style(Tone::Muted));
                    self.flush();
                }
            }
            Event::InlineHtml(text) => self.push(&text, self.theme.style(Tone::Muted)),
            Event::FootnoteReference(text) => self.push(&format!("[{text}]"), self.style()),
            Event::SoftBreak => self.push(" ", self.style()),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                let dash = self.sign("─", "-");
                let line = Span::styled(dash.repeat(self.width.min(MAX_RULE_WIDTH)), self.faint());
                self.push_gap();
                self.lines.push(Line::from(line));
            }
            Event::TaskListMarker(is_done) => {
                let sign =
                    if is_done { self.sign("☑ ", "[x] ") } else { self.sign("☐ ", "[ ] ") };
                self.push(sign, self.style());
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.push_gap(),
            Tag::Heading { level, .. } => {
                self.push_gap();
                let style = match level {
                    HeadingLevel::H1 => {
                        self.theme.style(Tone::Accent).add_modifier(Modifier::UNDERLINED)
                    }
                    HeadingLevel::H2 => self.theme.style(Tone::Accent),
                    HeadingLevel::H3 | HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => {
                        self.theme.style(Tone::Strong)
                    }
                };
                self.styles.push(style);
            }
            Tag::BlockQuote(_) => {
                self.push_gap();
                let bar = Span::styled(self.sign("▌ ", "> "), self.faint());
                self.push_indent(bar.clone(), bar);
            }
            Tag::CodeBlock(kind) => {
                self.push_gap();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.push_gap();
                }
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Table(alignments) => {
                self.push_gap();
                self.table = Some(MarkdownTable { alignments, ..MarkdownTable::default() });
            }
            Tag::TableHead => self.styles.push(self.theme.style(Tone::Strong)),
            Tag::Emphasis => self.add_style(Modifier::ITALIC),
            Tag::Strong => self.add_style(Modifier::BOLD),
            Tag::Strikethrough => self.add_style(Modifier::CROSSED_OUT),
            Tag::Link { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.inline.len()));
                self.styles.push(self.style().patch(self.theme.style(Tone::Link)));
            }
            Tag::Image { dest_url, .. } => {
                self.push("[picture: ", self.faint());
                self.links.push((dest_url.to_string(), self.inline.len()));
                self.styles.push(self.style());
            }
            Tag::TableRow
            | Tag::TableCell
            | Tag::Superscript
            | Tag::Subscript
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_block();
            }
            TagEnd::BlockQuote(_) => {
                self.indents.pop();
                self.needs_gap = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.needs_gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                if self.indents.last().is_some_and(|it| !it.is_started) && self.inline.is_empty() {
                    self.push_wrapped(vec![Span::raw("")]);
                }
                self.flush();
                self.indents.pop();
                self.needs_gap = false;
            }
            TagEnd::TableHead => {
                self.styles.pop();
                let row = std::mem::take(&mut self.row);
                if let Some(table) = &mut self.table {
                    table.head = row;
                }
            }
            TagEnd::TableRow => {
                let row = std::mem::take(&mut self.row);
                if let Some(table) = &mut self.table {
                    table.rows.push(row);
                }
            }
            TagEnd::TableCell => self.row.push(std::mem::take(&mut self.inline)),
            TagEnd::Table => self.end_table(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link => self.end_link(),
            TagEnd::Image => {
                self.end_link();
                self.push("]", self.faint());
            }
            TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn start_item(&mut self) {
        self.flush();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            Some(None) | None => self.sign("• ", "- ").to_owned(),
        };
        let room = " ".repeat(mark.chars().count());
        let style = self.theme.style(Tone::Accent);
        self.push_indent(Span::styled(mark, style), Span::raw(room));
        self.needs_gap = false;
    }

    fn end_block(&mut self) {
        self.flush();
        self.needs_gap = true;
    }

    fn end_code(&mut self) {
        let Some((language, text)) = self.code.take() else { return };
        let mut nothing = None;
        let is_alone = self.indents.is_empty();
        let margin = self.margin();
        let used: usize = margin.rest.iter().map(Span::width).sum();
        let room = (self.width.saturating_sub(used).max(4), self.theme);
        let lines = match &mut self.in_progress {
            Some(before) if is_alone => code::lines(&language, &text, room, before),
            Some(_) | None => code::lines(&language, &text, room, &mut nothing),
        };
        self.push_lines(lines);
        self.needs_gap = true;
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        let used: usize = self.margin().rest.iter().map(Span::width).sum();
        let lines = table.lines(self.width.saturating_sub(used).max(1), self.theme);
        self.push_lines(lines);
        self.needs_gap = true;
    }

    /// Adds the target of a link, unless its text is the target.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((target, from)) = self.links.pop() else { return };
        let from = from.min(self.inline.len());
        let text: String = self.inline[from..].iter().map(|it| it.content.as_ref()).collect();
        let is_shown = text == target || target.strip_prefix("mailto:") == Some(&text);
        if !is_shown && !target.is_empty() {
            self.push(&format!(" ({target})"), self.faint());
        }
    }

    fn push(&mut self, text: &str, style: Style) {
        self.inline.push(Span::styled(text.replace('\n', " "), style));
    }

    fn flush(&mut self) {
        if !self.inline.is_empty() {
            let inline = std::mem::take(&mut self.inline);
            self.push_wrapped(inline);
        }
    }

    fn push_wrapped(&mut self, spans: Vec<Span<'static>>) {
        let margin = self.margin();
        self.lines.extend(wrap(&spans, self.width, &margin));
        self.mark_indents_started();
    }

    /// Adds finished lines after the indentation.
    fn push_lines(&mut self, lines: Vec<Line<'static>>) {
        for line in lines {
            let mut spans = self.margin().first;
            spans.extend(line.spans);
            self.lines.push(Line::from(spans));
            self.mark_indents_started();
        }
    }

    fn mark_indents_started(&mut self) {
        for indent in &mut self.indents {
            indent.is_started = true;
        }
    }

    fn margin(&self) -> Margin {
        // Where there is little room, the outermost indents are dropped.
        let mut shown: &[Indent] = &self.indents;
        while let Some((_, inner)) = shown.split_first() {
            let total: usize = shown.iter().map(|it| it.rest.width()).sum();
            if total <= self.width / 2 && shown.len() <= MAX_DEPTH {
                break;
            }
            shown = inner;
        }
        let deepest = shown.iter();
        let first = deepest.clone().map(|it| if it.is_started { &it.rest } else { &it.first });
        Margin {
            first: first.cloned().collect(),
            rest: deepest.map(|it| it.rest.clone()).collect(),
        }
    }

    fn push_indent(&mut self, first: Span<'static>, rest: Span<'static>) {
        self.indents.push(Indent { first, rest, is_started: false });
    }

    /// Adds an empty line between blocks.
    fn push_gap(&mut self) {
        self.flush();
        let is_first = self.indents.last().is_some_and(|it| !it.is_started);
        if self.needs_gap && !is_first && !self.lines.is_empty() {
            let margin = self.margin();
            let mut line = Line::from(margin.rest);
            trim(&mut line);
            self.lines.push(line);
        }
        self.needs_gap = false;
    }

    fn add_style(&mut self, modifier: Modifier) {
        self.styles.push(self.style().add_modifier(modifier));
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn faint(&self) -> Style {
        self.theme.style(Tone::Muted)
    }

    fn sign(&self, drawn: &'static str, ascii: &'static str) -> &'static str {
        match self.theme.glyphs {
            GlyphSet::Unicode => drawn,
            GlyphSet::Ascii => ascii,
        }
    }
}

fn trim(line: &mut Line<'static>) {
    while line.spans.last().is_some_and(|it| it.content.trim().is_empty()) {
        line.spans.pop();
    }
}
