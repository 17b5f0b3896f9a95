//! May a tool be called? Shows what it is, what is odd about it, its arguments or what they would change in a file,
//! and the rule that an answer for good writes.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use serde_json::Value as Json;
use switchboard::calling::{Consented, Holds, PermissionQuestion};
use switchboard::config::permission::{Breadth, Suggestion};
use switchboard::pin::Alteration;
use switchboard::pool::tool::Annotations;
use tokio::sync::oneshot;

use crate::person::SAID_NO;
use crate::screen::dialog::edit_preview::{self, EditPreview};
use crate::screen::dialog::paper::{Paper, draw_lines};
use crate::screen::dialog::text_box::{Focus, Taken};
use crate::screen::dialog::{
    Answers, Body, Dialog, FRAME, framed, gives_up, json_text, shared_out,
};
use crate::screen::look::{Look, Tone};
use crate::screen::overlay::{Overlay, Reaction};

/// A call that somebody may allow.
#[derive(Debug, Clone)]
pub struct ProposedCall {
    /// Who wants it: `cli`, `chat` or the name of a client.
    pub caller: String,
    /// The server.
    pub server: String,
    /// The tool, by the server's own name.
    pub tool: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What its server says of its effects.
    pub annotations: Annotations,
    /// What is odd about it.
    pub flags: Vec<String>,
    /// Its arguments.
    pub arguments: Json,
    /// What they would change in a file, where they look like that.
    pub edit: Option<EditPreview>,
    /// Why it is asked.
    pub because: String,
    /// The rules that would answer next time, narrowest first.
    pub suggestions: Vec<Suggestion>,
    /// What changed about the tool since it was approved.
    pub alteration: Option<Alteration>,
    /// The file that an answer for good is written to, as people read it.
    pub rule_file: String,
}

impl ProposedCall {
    /// What is asked, without what a file would become.
    pub fn of(ask: &PermissionQuestion<'_>, rule_file: &str) -> ProposedCall {
        ProposedCall {
            caller: ask.caller.to_owned(),
            server: ask.tool.server.clone(),
            tool: ask.tool.name.clone(),
            title: ask.tool.title.clone(),
            annotations: ask.tool.annotations,
            flags: ask.tool.flags().iter().map(ToString::to_string).collect(),
            arguments: ask.arguments.clone(),
            edit: None,
            because: ask.because.clone(),
            suggestions: ask.suggestions.clone(),
            alteration: ask.alteration.clone(),
            rule_file: rule_file.to_owned(),
        }
    }

    fn head(&self) -> Paper {
        let mut paper = Paper::default();
        let mut about = Vec::new();
        if let Some(title) = self.title.as_ref().filter(|it| **it != self.tool) {
            about.push((Tone::Strong, title.clone()));
            about.push((Tone::Faint, " · ".to_owned()));
        }
        let it = self.annotations;
        about.push(match (it.read_only, it.destructive) {
            (true, _) => (Tone::Good, "says it only reads".to_owned()),
            (false, true) => (Tone::Doubtful, "may destroy something".to_owned()),
            (false, false) => (Tone::Text, "changes something".to_owned()),
        });
        if it.open_world {
            about.push((Tone::Faint, " · reaches beyond this machine".to_owned()));
        }
        paper.row(2, about);
        for flag in &self.flags {
            paper.row(5, vec![(Tone::Bad, "odd: ".to_owned()), (Tone::Text, flag.clone())]);
        }
        let who = match self.caller.as_str() {
            "chat" => "the model".to_owned(),
            "cli" => "you".to_owned(),
            caller => caller.to_owned(),
        };
        let text = format!("wanted by {who}; asked because {}", self.because);
        paper.row(2, vec![(Tone::Faint, text)]);
        paper
    }

    fn body(&self) -> Paper {
        let mut paper = Paper::default();
        if let Some(alteration) = &self.alteration {
            paper.text(Tone::Bad, "It is not what it was when it was approved:");
            edit_preview::write(&mut paper, &alteration.lines);
            paper.gap();
        }
        if let Some(edit) = &self.edit {
            paper.row(
                2,
                vec![(Tone::Strong, "Changes in ".to_owned()), (Tone::Link, edit.path.clone())],
            );
            edit_preview::write(&mut paper, &edit.lines);
            paper.gap();
        }
        let mut arguments = self.arguments.clone();
        if let (Some(edit), Some(members)) = (&self.edit, arguments.as_object_mut()) {
            members.retain(|key, _| !edit.members.contains(key));
        }
        match arguments.as_object().is_some_and(|it| it.is_empty()) {
            true if self.edit.is_some() => {}
            true => paper.text(Tone::Faint, "It gets no arguments."),
            false => json_text::write(&mut paper, &arguments),
        }
        paper
    }

    /// The rule that holds for a session: the tool, not its whole server.
    fn of_session(&self) -> Option<&Suggestion> {
        let of_tool = self.suggestions.iter().find(|it| it.breadth == Breadth::Tool);
        of_tool.or(self.suggestions.first())
    }
}

/// One of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Once,
    Session,
    Always,
    No,
}

impl Answer {
    fn label(self) -> &'static str {
        match self {
            Answer::Once => "Yes, once",
            Answer::Session => "Yes, this session",
            Answer::Always => "Always",
            Answer::No => "No",
        }
    }
}

/// What is being chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The answer.
    Answer,
    /// Which of several rules is written; this one so far.
    Rule(usize),
}

/// The dialog.
#[derive(Debug)]
pub struct PermissionDialog {
    call: ProposedCall,
    reply: Option<oneshot::Sender<Consented>>,
    head: Paper,
    body: Body,
    offered: Vec<Answer>,
    answers: Answers,
    step: Step,
}

impl PermissionDialog {
    /// Asks about a call.
    pub fn new(call: ProposedCall, reply: oneshot::Sender<Consented>) -> PermissionDialog {
        let offered = match call.suggestions.is_empty() {
            true => vec![Answer::Once, Answer::No],
            false => vec![Answer::Once, Answer::Session, Answer::Always, Answer::No],
        };
        let labels: Vec<&str> = offered.iter().map(|it| it.label()).collect();
        // Whoever approved something else has approved nothing of this.
        let at = if call.alteration.is_some() { offered.len() - 1 } else { 0 };
        let answers = Answers::new(&labels, at);
        let (head, body) = (call.head(), Body::new(call.body()));
        PermissionDialog {
            call,
            reply: Some(reply),
            head,
            body,
            offered,
            answers,
            step: Step::Answer,
        }
    }

    fn chosen(&self) -> Answer {
        self.offered.get(self.answers.at).copied().unwrap_or(Answer::No)
    }

    fn answer(&mut self, consented: Consented) -> Reaction {
        if let Some(reply) = self.reply.take() {
            let _nobody_waits = reply.send(consented);
        }
        Reaction::Close
    }

    fn yes(&mut self, holds: Holds) -> Reaction {
        self.answer(Consented::Yes { who: "you said yes".to_owned(), holds })
    }

    fn confirmed(&mut self) -> Reaction {
        let usual = self.call.of_session().map(|it| it.rule.clone());
        match (self.chosen(), usual) {
            (Answer::Once, _) => self.yes(Holds::Once),
            (Answer::Session, Some(rule)) => self.yes(Holds::Session(rule)),
            (Answer::Always, Some(rule)) if self.call.suggestions.len() == 1 => {
                self.yes(Holds::Always(rule))
            }
            (Answer::Always, Some(_)) => {
                let is_of_tool = |it: &Suggestion| it.breadth == Breadth::Tool;
                let at = self.call.suggestions.iter().position(is_of_tool).unwrap_or(0);
                self.step = Step::Rule(at);
                Reaction::Stay
            }
            (Answer::No | Answer::Session | Answer::Always, _) => self.no(),
        }
    }

    fn no(&mut self) -> Reaction {
        self.answer(Consented::No(SAID_NO.to_owned()))
    }

    fn rule_key(&mut self, key: KeyEvent, at: usize) -> Reaction {
        let last = self.call.suggestions.len().saturating_sub(1);
        match (key.code, ()) {
            (KeyCode::Esc, ()) => self.step = Step::Answer,
            (KeyCode::Up | KeyCode::Left | KeyCode::BackTab, ()) => {
                self.step = Step::Rule(at.saturating_sub(1));
            }
            (KeyCode::Down | KeyCode::Right | KeyCode::Tab, ()) => {
                self.step = Step::Rule((at + 1).min(last));
            }
            (KeyCode::Char(c), ()) => {
                let number = c.to_digit(10).and_then(|it| usize::try_from(it).ok());
                if let Some(at) = number.and_then(|it| it.checked_sub(1)).filter(|it| *it <= last) {
                    self.step = Step::Rule(at);
                }
            }
            (KeyCode::Enter, ()) => {
                if let Some(suggestion) = self.call.suggestions.get(at) {
                    let rule = suggestion.rule.clone();
                    return self.yes(Holds::Always(rule));
                }
            }
            (_, ()) => {}
        }
        Reaction::Stay
    }

    /// What stands below the answers.
    fn consequence(&self) -> Paper {
        let mut paper = Paper::default();
        let rule = |it: &Suggestion| (Tone::Code, format!("allow {}", it.rule.shown()));
        let said = |text: &str| (Tone::Faint, text.to_owned());
        match (self.step, self.chosen(), self.call.of_session()) {
            (Step::Rule(at), _, _) => {
                let file = format!("Which rule is written to {}?", self.call.rule_file);
                paper.text(Tone::Strong, &file);
                for (index, it) in self.call.suggestions.iter().enumerate() {
                    let tone = if index == at { Tone::Chosen } else { Tone::Text };
                    let mark = if index == at { ">" } else { " " };
                    let about = match it.breadth {
                        Breadth::Arguments => "with these arguments",
                        Breadth::Tool => "this tool",
                        Breadth::Server => "every tool of the server",
                    };
                    let front = format!("{mark}{} {about}: ", index + 1);
                    paper.row(4, vec![(tone, front), rule(it)]);
                }
            }
            (Step::Answer, Answer::Session, Some(it)) => {
                paper.row(2, vec![said("until you leave: "), rule(it)]);
            }
            (Step::Answer, Answer::Always, Some(it)) => {
                let several = self.call.suggestions.len() > 1;
                let front = if several { "you choose the rule, usually: " } else { "writes " };
                let place = format!(" to {}", self.call.rule_file);
                paper.row(2, vec![said(front), rule(it), said(&place)]);
            }
            (Step::Answer, Answer::Once | Answer::No | Answer::Session | Answer::Always, _) => {}
        }
        paper
    }
}

impl Overlay for PermissionDialog {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look) {
        let title = format!("{} wants to run {}", self.call.server, self.call.tool);
        let inner = framed(frame, area, look, &title);
        let head = self.head.lay(inner.width, look);
        let mut below = match self.step {
            Step::Answer => self.answers.lay(inner.width, look, Focus::Here),
            Step::Rule(_) => Vec::new(),
        };
        below.extend(self.consequence().lay(inner.width, look));
        let [above, middle, bottom] = shared_out(inner, head.len(), below.len());
        draw_lines(frame.buffer_mut(), above, &head);
        self.body.draw(frame, middle, look);
        draw_lines(frame.buffer_mut(), bottom, &below);
    }

    fn key(&mut self, key: KeyEvent) -> Reaction {
        if let Step::Rule(at) = self.step {
            return self.rule_key(key, at);
        }
        if gives_up(key) {
            return self.no();
        }
        if key.code == KeyCode::Enter {
            return self.confirmed();
        }
        if self.answers.key(key) == Taken::No {
            self.body.key(key);
        }
        Reaction::Stay
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        match self.step {
            Step::Answer => {
                vec![("←→", "choose"), ("Enter", "answer"), ("↑↓", "scroll"), ("Esc", "no")]
            }
            Step::Rule(_) => vec![("↑↓", "choose"), ("Enter", "write it"), ("Esc", "back")],
        }
    }
}

impl Dialog for PermissionDialog {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|it| !it.is_closed())
    }

    fn height(&mut self, width: u16, look: &Look) -> u16 {
        let inside = width.saturating_sub(FRAME.0);
        let rows = self.head.lay(inside, look).len()
            + self.body.height(inside, look)
            + self.answers.lay(inside, look, Focus::Here).len()
            // Room for the rules, so that nothing jumps.
            + 1 + self.call.suggestions.len().max(1);
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME.1)
    }
}

#[cfg(test)]
mod tests;
