//! A project brings servers that nobody decided on: what each would run or reach is shown, and nothing runs that
//! somebody did not say yes to. Writing the answers down is left to `deeds`.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use switchboard::config::cascade::{Pending, Server, State};
use switchboard::config::scope::Scope;
use switchboard::load::Configuration;
use tokio::sync::oneshot;

use crate::commands::get;
use crate::screen::dialog::paper::{Paper, Scroll, draw_lines};
use crate::screen::dialog::text_box::{Focus, Taken};
use crate::screen::dialog::{Answers, Dialog, FRAME, framed, gives_up, more, shared_out};
use crate::screen::look::{Look, Signs, Tone};
use crate::screen::overlay::{Overlay, Reaction};
use crate::session::Session;

/// A server of a project that nobody decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectServer {
    /// Its name.
    pub name: String,
    /// Where it is defined, as people read it.
    pub place: String,
    /// The hash of what is shown.
    pub fingerprint: String,
    /// What it would run or reach. Secrets are covered.
    pub entry: String,
    /// Why it waits.
    pub pending: Pending,
    /// Does it ask that its tools run without asking?
    pub wants_trust: bool,
}

impl ProjectServer {
    /// Those of a configuration.
    pub fn waiting(session: &Session, configuration: &Configuration) -> Vec<ProjectServer> {
        let of = |server: &Server| {
            let State::Pending(pending) = server.state else { return None };
            let entry = server.entry.as_ref()?;
            Some(ProjectServer {
                name: server.name.clone(),
                place: session.shown_origin(&server.origin),
                fingerprint: server.fingerprint.as_ref()?.as_str().to_owned(),
                entry: get::entry_text(entry),
                pending,
                wants_trust: entry.common.trust,
            })
        };
        let servers = configuration.effective.servers.iter();
        servers.filter(|it| it.scope() == Scope::Project).filter_map(of).collect()
    }
}

/// What is to become of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may run, as it is now.
    Approve,
    /// It may not.
    Reject,
    /// It is asked again the next time.
    Later,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Approve => "approve",
            Verdict::Reject => "reject",
            Verdict::Later => "later",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Verdict::Approve => Tone::Good,
            Verdict::Reject => Tone::Bad,
            Verdict::Later => Tone::Faint,
        }
    }

    fn next(self) -> Verdict {
        match self {
            Verdict::Later => Verdict::Approve,
            Verdict::Approve => Verdict::Reject,
            Verdict::Reject => Verdict::Later,
        }
    }

    fn before(self) -> Verdict {
        self.next().next()
    }
}

/// The dialog.
#[derive(Debug)]
pub struct ProjectDialog {
    servers: Vec<ProjectServer>,
    verdicts: Vec<Verdict>,
    /// The server that the keys go to; the answers, where it is none of them.
    at: usize,
    answers: Answers,
    scroll: Scroll,
    follows: bool,
    reply: Option<oneshot::Sender<Vec<Verdict>>>,
}

impl ProjectDialog {
    /// Asks about servers.
    pub fn new(servers: Vec<ProjectServer>, reply: oneshot::Sender<Vec<Verdict>>) -> ProjectDialog {
        let verdicts = vec![Verdict::Later; servers.len()];
        let labels = ["Done", "Approve all in this project", "Reject all"];
        let answers = Answers::new(&labels, 0);
        let (at, scroll) = (0, Scroll::default());
        ProjectDialog { servers, verdicts, at, answers, scroll, follows: true, reply: Some(reply) }
    }

    fn focus(&self, at: usize) -> Focus {
        if self.at == at { Focus::Here } else { Focus::Elsewhere }
    }

    fn go(&mut self, at: usize) -> Reaction {
        self.at = at.min(self.servers.len());
        self.follows = true;
        Reaction::Stay
    }

    fn answer(&mut self, verdicts: Vec<Verdict>) -> Reaction {
        if let Some(reply) = self.reply.take() {
            let _nobody_waits = reply.send(verdicts);
        }
        Reaction::Close
    }

    fn confirmed(&mut self) -> Reaction {
        let all = |verdict| vec![verdict; self.servers.len()];
        match self.answers.at {
            0 => self.answer(self.verdicts.clone()),
            1 => self.answer(all(Verdict::Approve)),
            _ => self.answer(all(Verdict::Reject)),
        }
    }

    fn sheet(&self, at: usize, look: &Look) -> Paper {
        let (server, verdict) = (&self.servers[at], self.verdicts[at]);
        let mut paper = Paper::default();
        let mark = match (self.focus(at), look.signs) {
            (Focus::Elsewhere, _) => "  ",
            (Focus::Here, Signs::Drawn) => "▸ ",
            (Focus::Here, Signs::Ascii) => "> ",
        };
        let mut pieces = vec![
            (Tone::Accent, mark.to_owned()),
            (Tone::Strong, server.name.clone()),
            (Tone::Faint, format!("  {}  ", server.place)),
        ];
        for it in [Verdict::Later, Verdict::Approve, Verdict::Reject] {
            let is_it = it == verdict;
            let text = if is_it { format!("[{}]", it.word()) } else { format!(" {} ", it.word()) };
            pieces.push((if is_it { it.tone() } else { Tone::Faint }, text));
        }
        paper.row(4, pieces);
        if server.pending == Pending::Changed {
            paper.hung(4, Tone::Bad, "It is not what you approved any more.");
        }
        for line in server.entry.lines() {
            paper.hung(4, Tone::Text, line.trim_start());
        }
        if server.wants_trust {
            let text = "It asks for trust: its tools would run without asking you.";
            paper.hung(4, Tone::Doubtful, text);
        }
        paper
    }

    fn lay(&self, width: u16, look: &Look) -> (Vec<Line<'static>>, Vec<std::ops::Range<usize>>) {
        let (mut lines, mut places) = (Vec::new(), Vec::new());
        for at in 0..self.servers.len() {
            let start = lines.len();
            lines.extend(self.sheet(at, look).lay(width, look));
            places.push(start..lines.len());
        }
        (lines, places)
    }

    fn head(&self) -> Paper {
        let mut paper = Paper::default();
        let count = self.servers.len();
        let text = match count {
            1 => "This project defines a server. It runs programs or reaches addresses on your behalf."
                .to_owned(),
            _ => format!(
                "This project defines {count} servers. They run programs or reach addresses on your behalf."
            ),
        };
        paper.text(Tone::Text, &text);
        paper
    }
}

impl Overlay for ProjectDialog {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look) {
        let inner = framed(frame, area, look, "Servers of this project");
        let head = self.head().lay(inner.width, look);
        let answers = self.answers.lay(inner.width, look, self.focus(self.servers.len()));
        let [above, middle, bottom] = shared_out(inner, head.len(), answers.len());
        draw_lines(frame.buffer_mut(), above, &head);
        draw_lines(frame.buffer_mut(), bottom, &answers);
        let (lines, places) = self.lay(middle.width, look);
        let is_more = lines.len() > usize::from(middle.height) && middle.height > 1;
        let height = if is_more { middle.height - 1 } else { middle.height };
        if self.follows
            && let Some(place) = places.get(self.at)
        {
            self.scroll.show(place.clone(), height);
        }
        let seen = self.scroll.fit(lines.len(), height);
        draw_lines(frame.buffer_mut(), Rect { height, ..middle }, &lines[seen]);
        if is_more {
            let text = more(self.scroll.hidden(), look);
            let style = look.style(Tone::Doubtful);
            let y = middle.y + height;
            frame.buffer_mut().set_stringn(middle.x, y, text, usize::from(middle.width), style);
        }
    }

    fn key(&mut self, key: KeyEvent) -> Reaction {
        if gives_up(key) {
            return self.answer(vec![Verdict::Later; self.servers.len()]);
        }
        let is_answers = self.at >= self.servers.len();
        let page = self.scroll.page();
        match (key.code, is_answers) {
            (KeyCode::Down, _) | (KeyCode::Tab | KeyCode::Enter, false) => {
                return self.go(self.at + 1);
            }
            (KeyCode::Up | KeyCode::BackTab, _) => return self.go(self.at.saturating_sub(1)),
            (KeyCode::Tab, true) => return self.go(0),
            (KeyCode::Enter, true) => return self.confirmed(),
            (KeyCode::PageDown, _) => {
                self.follows = false;
                self.scroll.by(page);
            }
            (KeyCode::PageUp, _) => {
                self.follows = false;
                self.scroll.by(-page);
            }
            (_, true) => {
                let _not_meant: Taken = self.answers.key(key);
            }
            (KeyCode::Right | KeyCode::Char(' '), false) => {
                self.verdicts[self.at] = self.verdicts[self.at].next();
            }
            (KeyCode::Left, false) => self.verdicts[self.at] = self.verdicts[self.at].before(),
            (KeyCode::Char('a' | 'y'), false) => self.verdicts[self.at] = Verdict::Approve,
            (KeyCode::Char('r' | 'n'), false) => self.verdicts[self.at] = Verdict::Reject,
            (KeyCode::Char('l'), false) => self.verdicts[self.at] = Verdict::Later,
            (_, false) => {}
        }
        Reaction::Stay
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        match self.at < self.servers.len() {
            true => vec![
                ("↑↓", "server"),
                ("←→", "decide"),
                ("a r l", "approve, reject, later"),
                ("Esc", "all later"),
            ],
            false => vec![("←→", "choose"), ("Enter", "answer"), ("Esc", "all later")],
        }
    }
}

impl Dialog for ProjectDialog {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|it| !it.is_closed())
    }

    fn height(&mut self, width: u16, look: &Look) -> u16 {
        let inside = width.saturating_sub(FRAME.0);
        let rows = self.head().lay(inside, look).len()
            + self.lay(inside, look).0.len()
            + self.answers.lay(inside, look, Focus::Here).len();
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME.1)
    }
}

#[cfg(test)]
mod tests;
