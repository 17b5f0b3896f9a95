//! One server in full, page by page: how it is doing, what it has, what it says.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::screen::dialog::ScrollArea;
use crate::screen::dialog::paper::{RichText, TonedText, draw_lines, sanitize_and_truncate};
use crate::screen::dialog::text_box::KeyHandled;
use crate::screen::look::{ScreenTheme, Tone};
use crate::screen::panel::inventory::{CatalogueEntry, ServerCatalogue, ToolEntry, ToolExposure};
use crate::screen::panel::observing::Measurements;
use crate::screen::panel::portrait::ServerDetails;
use crate::screen::panel::resident;
use crate::screen::panel::roster::{ConfiguredServer, Eligibility};

/// How much of a description is shown unless all of it is wanted.
const BRIEF_WIDTH: usize = 160;

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// How it is doing.
    Overview,
    /// Its tools.
    Tools,
    /// Its resources.
    Resources,
    /// Its prompts.
    Prompts,
    /// What it says on standard error.
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

/// How much is said of each thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DescriptionLength {
    Brief,
    Full,
}

/// Everything that is known of the server.
#[derive(Debug, Clone, Copy)]
pub struct PageContext<'k> {
    /// How it is doing.
    pub details: &'k ServerDetails,
    /// How it is configured, where it is.
    pub configured: Option<&'k ConfiguredServer>,
    /// What it has.
    pub catalogue: &'k ServerCatalogue,
    /// What was looked at.
    pub measurements: &'k Measurements,
}

/// The sheet.
#[derive(Debug)]
pub struct ServerPage {
    /// Whose.
    pub name: String,
    tab: Tab,
    description_length: DescriptionLength,
    body: ScrollArea,
    /// Does the log go on by itself? Not while somebody reads further up.
    follows_log: bool,
}

impl ServerPage {
    /// Of a server.
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

    /// The page that is open.
    pub fn tab(&self) -> Tab {
        self.tab
    }

    /// Opens a page.
    pub fn switch_to(&mut self, tab: Tab, known: PageContext<'_>) {
        self.tab = tab;
        self.body = ScrollArea::default();
        self.follows_log = true;
        self.refresh(known);
    }

    /// Writes the page anew, since something changed. Where somebody reads stays in view.
    pub fn refresh(&mut self, known: PageContext<'_>) {
        self.body.set_text(match self.tab {
            Tab::Overview => overview_text(known),
            Tab::Tools => tools_text(known.catalogue, self.description_length),
            Tab::Resources => {
                entries_text(&known.catalogue.resources, "resources", self.description_length)
            }
            Tab::Prompts => {
                entries_text(&known.catalogue.prompts, "prompts", self.description_length)
            }
            Tab::Log => log_text(known),
        });
    }

    /// Takes the keys that turn pages and scroll.
    pub fn on_key(&mut self, key: KeyEvent, known: PageContext<'_>) -> KeyHandled {
        let count = Tab::ALL.len();
        match (key.code, ()) {
            (KeyCode::Right | KeyCode::Tab, ()) => {
                self.switch_to(Tab::ALL[(self.tab.index() + 1) % count], known);
            }
            (KeyCode::Left | KeyCode::BackTab, ()) => {
                self.switch_to(Tab::ALL[(self.tab.index() + count - 1) % count], known);
            }
            (KeyCode::Char(c @ '1'..='5'), ()) => {
                let at = usize::from(u8::try_from(c).unwrap_or(b'1') - b'1');
                self.switch_to(Tab::ALL[at], known);
            }
            (KeyCode::Enter, ()) => {
                self.description_length = match self.description_length {
                    DescriptionLength::Brief => DescriptionLength::Full,
                    DescriptionLength::Full => DescriptionLength::Brief,
                };
                self.refresh(known);
            }
            (_, ()) => {
                let taken = self.body.on_key(key);
                self.follows_log = self.body.scroll().is_at_end();
                return taken;
            }
        }
        KeyHandled::Yes
    }

    /// Draws it.
    pub fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        look: &ScreenTheme,
        known: PageContext<'_>,
    ) {
        let [above, below] = split(area);
        draw_lines(frame.buffer_mut(), above, &[self.tabs(known, look, area.width)]);
        if self.tab == Tab::Log && self.follows_log {
            // As far down as it goes; drawing finds out how far that is.
            self.body.scroll().top = usize::MAX / 2;
        }
        self.body.draw(frame, below, look);
    }

    fn tabs(&self, known: PageContext<'_>, look: &ScreenTheme, width: u16) -> Line<'static> {
        let [tools, resources, prompts] = known.details.counts;
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
            spans.push(Span::styled(text, look.style(tone)));
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

fn overview_text(known: PageContext<'_>) -> RichText {
    let PageContext {
        details: portrait,
        configured: configured_server,
        measurements: measurements,
        ..
    } = known;
    let mut paper = RichText::default();
    paper.push_labelled("State", portrait.health.tone(), &portrait.state);
    if let Some(cause) = &portrait.failure {
        paper.push_labelled("Cause", Tone::Text, &cause.summary);
        for (label, text) in &cause.evidence {
            paper.push_labelled("", Tone::Muted, &format!("{label}: {}", text.trim_end()));
        }
        if let Some(remedy) = &cause.remedy {
            paper.push_labelled("Hint", Tone::Accent, remedy);
        }
    }
    if portrait.eligibility == Eligibility::PendingApproval {
        paper.push_labelled(
            "Hint",
            Tone::Accent,
            "look at what it runs, then: p approve, x reject",
        );
    }
    for note in &portrait.notes {
        paper.push_labelled("Note", Tone::Warning, note);
    }
    if let Some(it) = &portrait.description {
        paper.push_labelled("Server", Tone::Text, &it.title);
        let era = format!("{} ({})", it.era, it.protocol_version);
        paper.push_labelled("Era", Tone::Text, &era);
        let words =
            if it.capabilities.is_empty() { "none".to_owned() } else { it.capabilities.join(", ") };
        paper.push_labelled("Can do", Tone::Text, &words);
    }
    if let Some(time) = portrait.ready_after {
        paper.push_labelled("Ready after", Tone::Text, &format!("{} ms", time.as_millis()));
    }
    if let Some(process) = portrait.process {
        let memory = measurements.memory.get(&process);
        let memory = memory.map_or("-".to_owned(), |it| resident::format_bytes(*it));
        paper.push_labelled("Process", Tone::Text, &format!("{process}, {memory} in memory"));
    }
    paper.push_blank();
    match configured_server {
        Some(it) => push_configuration(&mut paper, it),
        None => paper.push_labelled("Scope", Tone::Text, portrait.scope),
    }
    if let Some(text) = portrait.description.as_ref().and_then(|it| it.instructions.as_ref()) {
        paper.push_blank();
        paper.push_text(Tone::Muted, "How to use it, in its own words:");
        paper.push_indented(2, Tone::Text, text);
    }
    paper
}

fn push_configuration(paper: &mut RichText, configured_server: &ConfiguredServer) {
    paper.push_labelled("Defined in", Tone::Text, &configured_server.origin);
    paper.push_labelled("Scope", Tone::Text, configured_server.scope);
    for line in configured_server.entry.lines() {
        match line.trim().split_once(": ") {
            Some((label, value)) => paper.push_labelled(label, Tone::Text, value.trim_start()),
            None => paper.push_labelled("", Tone::Text, line.trim()),
        }
    }
    if configured_server.is_trusted {
        paper.push_labelled("Trust", Tone::Warning, "its tools run without asking");
    }
    if let Some(fingerprint) = &configured_server.fingerprint {
        paper.push_labelled("Hash", Tone::Muted, fingerprint);
    }
}

fn tools_text(inventory: &ServerCatalogue, detail: DescriptionLength) -> RichText {
    let mut paper = RichText::default();
    if inventory.tools.is_empty() {
        paper.push_text(Tone::Muted, "It has no tools.");
        return paper;
    }
    let text = format!(
        "{}; those that a model is told of take about {} tokens",
        crate::describe::pluralize(inventory.tools.len(), "tool", "tools"),
        inventory.tokens()
    );
    paper.push_text(Tone::Muted, &text);
    for tool in &inventory.tools {
        push_tool(&mut paper, tool, detail);
    }
    paper
}

fn push_tool(paper: &mut RichText, tool: &ToolEntry, detail: DescriptionLength) {
    let mut pieces: Vec<TonedText> = vec![(Tone::Strong, tool.name.clone())];
    for word in &tool.annotations {
        let tone = match *word {
            "read-only" | "additive" => Tone::Success,
            "destructive" => Tone::Warning,
            _ => Tone::Muted,
        };
        pieces.push((tone, format!("  {word}")));
    }
    pieces.push((Tone::Muted, format!("  ~{} tokens", tool.tokens)));
    paper.push_line(2, pieces);
    if let Some(title) = tool.title.as_ref().filter(|it| **it != tool.name) {
        paper.push_indented(2, Tone::Text, title);
    }
    match &tool.exposure {
        ToolExposure::ExposedAs(exposed) if detail == DescriptionLength::Full => {
            paper.push_indented(2, Tone::Muted, &format!("called {exposed}"));
        }
        ToolExposure::ExposedAs(_) => {}
        ToolExposure::Hidden(why) => {
            paper.push_indented(2, Tone::Warning, &format!("not offered: {why}"))
        }
    }
    push_description(paper, &tool.description, detail);
}

fn push_description(paper: &mut RichText, description: &str, detail: DescriptionLength) {
    match detail {
        _ if description.is_empty() => {}
        DescriptionLength::Full => paper.push_indented(2, Tone::Text, description),
        DescriptionLength::Brief => {
            let first = description.lines().find(|it| !it.trim().is_empty()).unwrap_or_default();
            paper.push_indented(2, Tone::Text, &sanitize_and_truncate(first.trim(), BRIEF_WIDTH));
        }
    }
}

fn entries_text(things: &[CatalogueEntry], word: &str, detail: DescriptionLength) -> RichText {
    let mut paper = RichText::default();
    if things.is_empty() {
        paper.push_text(Tone::Muted, &format!("It has no {word}."));
    }
    for thing in things {
        let mut pieces: Vec<TonedText> = vec![(Tone::Strong, thing.name.clone())];
        if let Some(title) = &thing.title {
            pieces.push((Tone::Text, format!("  {title}")));
        }
        if !thing.details.is_empty() {
            pieces.push((Tone::Muted, format!("  {}", thing.details)));
        }
        paper.push_line(2, pieces);
        push_description(&mut paper, &thing.description, detail);
    }
    paper
}

fn log_text(known: PageContext<'_>) -> RichText {
    let mut paper = RichText::default();
    match &known.measurements.log {
        Some((server, lines)) if *server == known.details.name && !lines.is_empty() => {
            for line in lines {
                paper.push_text(Tone::Text, line);
            }
        }
        Some(_) | None => paper.push_text(Tone::Muted, "It has said nothing yet."),
    }
    paper
}
