//! One server in full, page by page: how it is doing, what it has, what it says.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::screen::dialog::Body;
use crate::screen::dialog::paper::{Paper, Piece, cut, draw_lines};
use crate::screen::dialog::text_box::Taken;
use crate::screen::look::{Look, Tone};
use crate::screen::panel::inventory::{Inventory, Offer, Thing, ToolCard};
use crate::screen::panel::observing::Observed;
use crate::screen::panel::portrait::Portrait;
use crate::screen::panel::resident;
use crate::screen::panel::roster::{Enrolled, Footing};

/// How much of a description is shown unless all of it is wanted.
const BRIEF: usize = 160;

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

    fn word(self) -> &'static str {
        match self {
            Tab::Overview => "Overview",
            Tab::Tools => "Tools",
            Tab::Resources => "Resources",
            Tab::Prompts => "Prompts",
            Tab::Log => "Log",
        }
    }

    fn at(self) -> usize {
        Tab::ALL.iter().position(|it| *it == self).unwrap_or(0)
    }
}

/// How much is said of each thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Brief,
    Full,
}

/// Everything that is known of the server.
#[derive(Debug, Clone, Copy)]
pub struct Known<'k> {
    /// How it is doing.
    pub portrait: &'k Portrait,
    /// How it is configured, where it is.
    pub enrolled: Option<&'k Enrolled>,
    /// What it has.
    pub inventory: &'k Inventory,
    /// What was looked at.
    pub observed: &'k Observed,
}

/// The sheet.
#[derive(Debug)]
pub struct ServerSheet {
    /// Whose.
    pub name: String,
    tab: Tab,
    detail: Detail,
    body: Body,
    /// Does the log go on by itself? Not while somebody reads further up.
    follows: bool,
}

impl ServerSheet {
    /// Of a server.
    pub fn new(name: &str, tab: Tab) -> ServerSheet {
        let name = name.to_owned();
        ServerSheet { name, tab, detail: Detail::Brief, body: Body::default(), follows: true }
    }

    /// The page that is open.
    pub fn tab(&self) -> Tab {
        self.tab
    }

    /// Opens a page.
    pub fn turn_to(&mut self, tab: Tab, known: Known<'_>) {
        self.tab = tab;
        self.body = Body::default();
        self.follows = true;
        self.renew(known);
    }

    /// Writes the page anew, since something changed. Where somebody reads stays in view.
    pub fn renew(&mut self, known: Known<'_>) {
        self.body.replace(match self.tab {
            Tab::Overview => overview(known),
            Tab::Tools => tools(known.inventory, self.detail),
            Tab::Resources => things(&known.inventory.resources, "resources", self.detail),
            Tab::Prompts => things(&known.inventory.prompts, "prompts", self.detail),
            Tab::Log => log(known),
        });
    }

    /// Takes the keys that turn pages and scroll.
    pub fn key(&mut self, key: KeyEvent, known: Known<'_>) -> Taken {
        let count = Tab::ALL.len();
        match (key.code, ()) {
            (KeyCode::Right | KeyCode::Tab, ()) => {
                self.turn_to(Tab::ALL[(self.tab.at() + 1) % count], known);
            }
            (KeyCode::Left | KeyCode::BackTab, ()) => {
                self.turn_to(Tab::ALL[(self.tab.at() + count - 1) % count], known);
            }
            (KeyCode::Char(c @ '1'..='5'), ()) => {
                let at = usize::from(u8::try_from(c).unwrap_or(b'1') - b'1');
                self.turn_to(Tab::ALL[at], known);
            }
            (KeyCode::Enter, ()) => {
                self.detail = match self.detail {
                    Detail::Brief => Detail::Full,
                    Detail::Full => Detail::Brief,
                };
                self.renew(known);
            }
            (_, ()) => {
                let taken = self.body.key(key);
                self.follows = self.body.scroll().is_at_end();
                return taken;
            }
        }
        Taken::Yes
    }

    /// Draws it.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look, known: Known<'_>) {
        let [above, below] = split(area);
        draw_lines(frame.buffer_mut(), above, &[self.tabs(known, look, area.width)]);
        if self.tab == Tab::Log && self.follows {
            // As far down as it goes; drawing finds out how far that is.
            self.body.scroll().top = usize::MAX / 2;
        }
        self.body.draw(frame, below, look);
    }

    fn tabs(&self, known: Known<'_>, look: &Look, width: u16) -> Line<'static> {
        let [tools, resources, prompts] = known.portrait.counts;
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
                false => format!("{open}{} {}{count}{close}", index + 1, tab.word()),
            };
            let tone = if tab == self.tab { Tone::Chosen } else { Tone::Text };
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

fn overview(known: Known<'_>) -> Paper {
    let Known { portrait, enrolled, observed, .. } = known;
    let mut paper = Paper::default();
    paper.labelled("State", portrait.mood.tone(), &portrait.state);
    if let Some(cause) = &portrait.cause {
        paper.labelled("Cause", Tone::Text, &cause.what);
        for (label, text) in &cause.evidence {
            paper.labelled("", Tone::Faint, &format!("{label}: {}", text.trim_end()));
        }
        if let Some(remedy) = &cause.remedy {
            paper.labelled("Hint", Tone::Accent, remedy);
        }
    }
    if portrait.footing == Footing::Undecided {
        paper.labelled("Hint", Tone::Accent, "look at what it runs, then: p approve, x reject");
    }
    for note in &portrait.notes {
        paper.labelled("Note", Tone::Doubtful, note);
    }
    if let Some(it) = &portrait.introduced {
        paper.labelled("Server", Tone::Text, &it.title);
        let era = format!("{} ({})", it.era, it.version);
        paper.labelled("Era", Tone::Text, &era);
        let words =
            if it.capabilities.is_empty() { "none".to_owned() } else { it.capabilities.join(", ") };
        paper.labelled("Can do", Tone::Text, &words);
    }
    if let Some(time) = portrait.ready_after {
        paper.labelled("Ready after", Tone::Text, &format!("{} ms", time.as_millis()));
    }
    if let Some(process) = portrait.process {
        let memory = observed.resident.get(&process);
        let memory = memory.map_or("-".to_owned(), |it| resident::shown(*it));
        paper.labelled("Process", Tone::Text, &format!("{process}, {memory} in memory"));
    }
    paper.gap();
    match enrolled {
        Some(it) => configured(&mut paper, it),
        None => paper.labelled("Scope", Tone::Text, portrait.scope),
    }
    if let Some(text) = portrait.introduced.as_ref().and_then(|it| it.instructions.as_ref()) {
        paper.gap();
        paper.text(Tone::Faint, "How to use it, in its own words:");
        paper.hung(2, Tone::Text, text);
    }
    paper
}

fn configured(paper: &mut Paper, enrolled: &Enrolled) {
    paper.labelled("Defined in", Tone::Text, &enrolled.origin);
    paper.labelled("Scope", Tone::Text, enrolled.scope);
    for line in enrolled.entry.lines() {
        match line.trim().split_once(": ") {
            Some((label, value)) => paper.labelled(label, Tone::Text, value.trim_start()),
            None => paper.labelled("", Tone::Text, line.trim()),
        }
    }
    if enrolled.is_trusted {
        paper.labelled("Trust", Tone::Doubtful, "its tools run without asking");
    }
    if let Some(fingerprint) = &enrolled.fingerprint {
        paper.labelled("Hash", Tone::Faint, fingerprint);
    }
}

fn tools(inventory: &Inventory, detail: Detail) -> Paper {
    let mut paper = Paper::default();
    if inventory.tools.is_empty() {
        paper.text(Tone::Faint, "It has no tools.");
        return paper;
    }
    let text = format!(
        "{}; those that a model is told of take about {} tokens",
        crate::describe::counted(inventory.tools.len(), "tool", "tools"),
        inventory.tokens()
    );
    paper.text(Tone::Faint, &text);
    for tool in &inventory.tools {
        tool_lines(&mut paper, tool, detail);
    }
    paper
}

fn tool_lines(paper: &mut Paper, tool: &ToolCard, detail: Detail) {
    let mut pieces: Vec<Piece> = vec![(Tone::Strong, tool.name.clone())];
    for word in &tool.annotations {
        let tone = match *word {
            "read-only" | "additive" => Tone::Good,
            "destructive" => Tone::Doubtful,
            _ => Tone::Faint,
        };
        pieces.push((tone, format!("  {word}")));
    }
    pieces.push((Tone::Faint, format!("  ~{} tokens", tool.tokens)));
    paper.row(2, pieces);
    if let Some(title) = tool.title.as_ref().filter(|it| **it != tool.name) {
        paper.hung(2, Tone::Text, title);
    }
    match &tool.offer {
        Offer::As(exposed) if detail == Detail::Full => {
            paper.hung(2, Tone::Faint, &format!("called {exposed}"));
        }
        Offer::As(_) => {}
        Offer::Not(why) => paper.hung(2, Tone::Doubtful, &format!("not offered: {why}")),
    }
    described(paper, &tool.description, detail);
}

fn described(paper: &mut Paper, description: &str, detail: Detail) {
    match detail {
        _ if description.is_empty() => {}
        Detail::Full => paper.hung(2, Tone::Text, description),
        Detail::Brief => {
            let first = description.lines().find(|it| !it.trim().is_empty()).unwrap_or_default();
            paper.hung(2, Tone::Text, &cut(first.trim(), BRIEF));
        }
    }
}

fn things(things: &[Thing], word: &str, detail: Detail) -> Paper {
    let mut paper = Paper::default();
    if things.is_empty() {
        paper.text(Tone::Faint, &format!("It has no {word}."));
    }
    for thing in things {
        let mut pieces: Vec<Piece> = vec![(Tone::Strong, thing.name.clone())];
        if let Some(title) = &thing.title {
            pieces.push((Tone::Text, format!("  {title}")));
        }
        if !thing.more.is_empty() {
            pieces.push((Tone::Faint, format!("  {}", thing.more)));
        }
        paper.row(2, pieces);
        described(&mut paper, &thing.description, detail);
    }
    paper
}

fn log(known: Known<'_>) -> Paper {
    let mut paper = Paper::default();
    match &known.observed.log {
        Some((server, lines)) if *server == known.portrait.name && !lines.is_empty() => {
            for line in lines {
                paper.text(Tone::Text, line);
            }
        }
        Some(_) | None => paper.text(Tone::Faint, "It has said nothing yet."),
    }
    paper
}
