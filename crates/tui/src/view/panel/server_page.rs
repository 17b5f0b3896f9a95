//! The page of one server, in tabs: overview, tools, resources, prompts and log.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use switchboard::config::display::format_bytes;

use crate::configured_servers::{ConfiguredServer, Eligibility};
use crate::text::rich_text::{RichText, TonedText, draw_lines, sanitize_and_truncate};
use crate::theme::{ScreenTheme, Tone};
use crate::view::panel::monitor::Measurements;
use crate::view::panel::server_catalogue::{
    CatalogueEntry, ServerCatalogue, ToolEntry, ToolExposure,
};
use crate::view::panel::server_details::ServerDetails;
use crate::view::widget::input::KeyOutcome;
use crate::view::widget::scroll_area::ScrollArea;

/// The number of description lines in the short form.
const BRIEF_WIDTH: usize = 160;

/// A tab of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// The state and the configuration.
    Overview,
    /// The tools.
    Tools,
    /// The resources.
    Resources,
    /// The prompts.
    Prompts,
    /// The log of its standard error.
    Log,
}

impl Tab {
    const ALL: [Tab; 5] = [Tab::Overview, Tab::Tools, Tab::Resources, Tab::Prompts, Tab::Log];

    fn label(self) -> &'static str {
        match self {
            Tab::Overview => "Overview",
            Tab::Tools => "Tools",
            Tab::Resources => "Resources",
            Tab::Prompts => "Prompts",
            Tab::Log => "Log",
        }
    }

    fn index(self) -> usize {
        Tab::ALL.iter().position(|it| *it == self).unwrap_or(0)
    }
}

/// How much of each item is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DescriptionLength {
    Brief,
    Full,
}

/// Everything the page shows.
#[derive(Debug, Clone, Copy)]
pub struct PageContext<'k> {
    /// Its configuration and connection.
    pub details: &'k ServerDetails,
    /// Its configuration, if it has one.
    pub configured: Option<&'k ConfiguredServer>,
    /// Its tools, resources and prompts.
    pub catalogue: &'k ServerCatalogue,
    /// The latest measurements.
    pub measurements: &'k Measurements,
}

/// The page of a server.
#[derive(Debug)]
pub struct ServerPage {
    /// The server's name.
    pub name: String,
    tab: Tab,
    description_length: DescriptionLength,
    body: ScrollArea,
    /// Does the log follow new lines? Not after the user has scrolled up.
    follows_log: bool,
}

impl ServerPage {
    /// The page of a server, at a tab.
    pub fn new(name: &str, tab: Tab) -> ServerPage {
        let name = name.to_owned();
        ServerPage {
            name,
            tab,
            description_length: DescriptionLength::Brief,
            body: ScrollArea::default(),
            follows_log: true,
        }
    }

    /// The open tab.
    pub fn tab(&self) -> Tab {
        self.tab
    }

    /// Opens a tab.
    pub fn switch_to(&mut self, tab: Tab, context: PageContext<'_>) {
        self.tab = tab;
        self.body = ScrollArea::default();
        self.follows_log = true;
        self.refresh(context);
    }

    /// Rebuilds the content after a change and keeps the scroll position.
    pub fn refresh(&mut self, context: PageContext<'_>) {
        self.body.set_text(match self.tab {
            Tab::Overview => overview_text(context),
            Tab::Tools => tools_text(context.catalogue, self.description_length),
            Tab::Resources => {
                entries_text(&context.catalogue.resources, "resources", self.description_length)
            }
            Tab::Prompts => {
                entries_text(&context.catalogue.prompts, "prompts", self.description_length)
            }
            Tab::Log => log_text(context),
        });
    }

    /// Handles the keys that change tabs and scroll.
    pub fn on_key(&mut self, key: KeyEvent, context: PageContext<'_>) -> KeyOutcome {
        let count = Tab::ALL.len();
        match (key.code, ()) {
            (KeyCode::Right | KeyCode::Tab, ()) => {
                self.switch_to(Tab::ALL[(self.tab.index() + 1) % count], context);
            }
            (KeyCode::Left | KeyCode::BackTab, ()) => {
                self.switch_to(Tab::ALL[(self.tab.index() + count - 1) % count], context);
            }
            (KeyCode::Char(c @ '1'..='5'), ()) => {
                let at = usize::from(u8::try_from(c).unwrap_or(b'1') - b'1');
                self.switch_to(Tab::ALL[at], context);
            }
            (KeyCode::Enter, ()) => {
                self.description_length = match self.description_length {
                    DescriptionLength::Brief => DescriptionLength::Full,
                    DescriptionLength::Full => DescriptionLength::Brief,
                };
                self.refresh(context);
            }
            (_, ()) => {
                let taken = self.body.on_key(key);
                self.follows_log = self.body.scroll().is_at_end();
                return taken;
            }
        }
        KeyOutcome::Handled
    }

    /// Draws the page.
    pub fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        theme: &ScreenTheme,
        context: PageContext<'_>,
    ) {
        let [above, below] = split(area);
        draw_lines(frame.buffer_mut(), above, &[self.tabs(context, theme, area.width)]);
        if self.tab == Tab::Log && self.follows_log {
            // The end; drawing limits the position to it.
            self.body.scroll().top = usize::MAX / 2;
        }
        self.body.draw(frame, below, theme);
    }

    fn tabs(&self, context: PageContext<'_>, theme: &ScreenTheme, width: u16) -> Line<'static> {
        let [tools, resources, prompts] = context.details.counts;
        let mut spans = Vec::new();
        for (index, tab) in Tab::ALL.into_iter().enumerate() {
            let count = match tab {
                Tab::Tools => tools,
                Tab::Resources => resources,
                Tab::Prompts => prompts,
                Tab::Overview | Tab::Log => None,
            };
            let count = count.map(|it| format!(" {it}")).unwrap_or_default();
            let (open, close) = if tab == self.tab { ("[", "]") } else { (" ", " ") };
            let text = match width < 60 && tab != self.tab {
                true => format!("{open}{}{close}", index + 1),
                false => format!("{open}{} {}{count}{close}", index + 1, tab.label()),
            };
            let tone = if tab == self.tab { Tone::Selected } else { Tone::Text };
            spans.push(Span::styled(text, theme.style(tone)));
            spans.push(Span::raw(" "));
        }
        Line::from(spans)
    }
}

fn split(area: Rect) -> [Rect; 2] {
    let above = area.height.min(1);
    let gap = u16::from(area.height > 8);
    let top = area.y + above + gap;
    let height = area.height - above - gap.min(area.height - above);
    [Rect { height: above, ..area }, Rect { y: top, height, ..area }]
}

fn overview_text(context: PageContext<'_>) -> RichText {
    let PageContext { details, configured: configured_server, measurements, .. } = context;
    let mut content = RichText::default();
    content.push_labelled("State", details.health.tone(), &details.state);
    if let Some(cause) = &details.failure {
        content.push_labelled("Cause", Tone::Text, &cause.summary);
        for (label, text) in &cause.evidence {
            content.push_labelled("", Tone::Muted, &format!("{label}: {}", text.trim_end()));
        }
        if let Some(remedy) = &cause.remedy {
            content.push_labelled("Hint", Tone::Accent, remedy);
        }
    }
    if details.eligibility == Eligibility::PendingApproval {
        content.push_labelled(
            "Hint",
            Tone::Accent,
            "look at what it runs, then: p approve, x reject",
        );
    }
    for note in &details.notes {
        content.push_labelled("Note", Tone::Warning, note);
    }
    if let Some(it) = &details.description {
        content.push_labelled("Server", Tone::Text, &it.title);
        content.push_labelled("Protocol", Tone::Text, &it.protocol_version);
        let words =
            if it.capabilities.is_empty() { "none".to_owned() } else { it.capabilities.join(", ") };
        content.push_labelled("Capabilities", Tone::Text, &words);
    }
    if let Some(time) = details.ready_after {
        content.push_labelled("Ready after", Tone::Text, &format!("{} ms", time.as_millis()));
    }
    if let Some(process) = details.process {
        let memory = measurements.memory.get(&process);
        let memory = memory.map_or("-".to_owned(), |it| format_bytes(*it));
        let shared = if details.is_shared { ", shared with other sessions" } else { "" };
        let text = format!("{process}, {memory} in memory{shared}");
        content.push_labelled("Process", Tone::Text, &text);
    }
    if !details.channel.is_empty() {
        content.push_labelled("Channel", Tone::Text, &details.channel);
    }
    content.push_blank();
    match configured_server {
        Some(it) => push_configuration(&mut content, it),
        None => content.push_labelled("Scope", Tone::Text, details.scope),
    }
    if let Some(text) = details.description.as_ref().and_then(|it| it.instructions.as_ref()) {
        content.push_blank();
        content.push_text(Tone::Muted, "Instructions from the server:");
        content.push_indented(2, Tone::Text, text);
    }
    content
}

fn push_configuration(content: &mut RichText, configured_server: &ConfiguredServer) {
    content.push_labelled("Defined in", Tone::Text, &configured_server.origin);
    content.push_labelled("Scope", Tone::Text, configured_server.scope);
    for line in configured_server.entry.lines() {
        match line.trim().split_once(": ") {
            Some((label, value)) => content.push_labelled(label, Tone::Text, value.trim_start()),
            None => content.push_labelled("", Tone::Text, line.trim()),
        }
    }
    if configured_server.is_trusted {
        content.push_labelled("Trust", Tone::Warning, "its tools run without asking");
    }
    if let Some(fingerprint) = &configured_server.fingerprint {
        content.push_labelled("Hash", Tone::Muted, fingerprint);
    }
}

fn tools_text(catalogue: &ServerCatalogue, detail: DescriptionLength) -> RichText {
    let mut content = RichText::default();
    if catalogue.tools.is_empty() {
        content.push_text(Tone::Muted, "It has no tools.");
        return content;
    }
    let text = format!(
        "{}; those offered to the model take about {} tokens",
        switchboard::config::display::pluralize(catalogue.tools.len(), "tool", "tools"),
        catalogue.tokens()
    );
    content.push_text(Tone::Muted, &text);
    for tool in &catalogue.tools {
        push_tool(&mut content, tool, detail);
    }
    content
}

fn push_tool(content: &mut RichText, tool: &ToolEntry, detail: DescriptionLength) {
    let mut pieces: Vec<TonedText> = vec![(Tone::Strong, tool.name.clone())];
    for word in &tool.annotations {
        let tone = match *word {
            "read-only" => Tone::Success,
            "writes" => Tone::Text,
            "destructive" => Tone::Warning,
            _ => Tone::Muted,
        };
        pieces.push((tone, format!("  {word}")));
    }
    pieces.push((Tone::Muted, format!("  ~{} tokens", tool.tokens)));
    content.push_line(2, pieces);
    if let Some(title) = tool.title.as_ref().filter(|it| **it != tool.name) {
        content.push_indented(2, Tone::Text, title);
    }
    match &tool.exposure {
        ToolExposure::ExposedAs(exposed) if detail == DescriptionLength::Full => {
            content.push_indented(2, Tone::Muted, &format!("exposed as {exposed}"));
        }
        ToolExposure::ExposedAs(_) => {}
        ToolExposure::Hidden(why) => {
            content.push_indented(2, Tone::Warning, &format!("not offered: {why}"))
        }
    }
    push_description(content, &tool.description, detail);
}

fn push_description(content: &mut RichText, description: &str, detail: DescriptionLength) {
    match detail {
        _ if description.is_empty() => {}
        DescriptionLength::Full => content.push_indented(2, Tone::Text, description),
        DescriptionLength::Brief => {
            let first = description.lines().find(|it| !it.trim().is_empty()).unwrap_or_default();
            content.push_indented(2, Tone::Text, &sanitize_and_truncate(first.trim(), BRIEF_WIDTH));
        }
    }
}

fn entries_text(things: &[CatalogueEntry], word: &str, detail: DescriptionLength) -> RichText {
    let mut content = RichText::default();
    if things.is_empty() {
        content.push_text(Tone::Muted, &format!("It has no {word}."));
    }
    for thing in things {
        let mut pieces: Vec<TonedText> = vec![(Tone::Strong, thing.name.clone())];
        if let Some(title) = &thing.title {
            pieces.push((Tone::Text, format!("  {title}")));
        }
        if !thing.details.is_empty() {
            pieces.push((Tone::Muted, format!("  {}", thing.details)));
        }
        content.push_line(2, pieces);
        push_description(&mut content, &thing.description, detail);
    }
    content
}

fn log_text(context: PageContext<'_>) -> RichText {
    let mut content = RichText::default();
    match &context.measurements.log {
        Some((server, lines)) if *server == context.details.name && !lines.is_empty() => {
            for line in lines {
                content.push_text(Tone::Text, line);
            }
        }
        Some(_) | None => content.push_text(Tone::Muted, "The log is empty."),
    }
    content
}
