//! The dialog about servers of the project and of plugins that wait for approval: shows what each would run or reach. Writing the
//! decisions is left to `effects`.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use switchboard::config::merge::PendingReason;
use tokio::sync::oneshot;

use crate::text::rich_text::{RichText, draw_lines};
use crate::theme::{GlyphSet, ScreenTheme, Tone};
use crate::view::overlay::{Dialog, Overlay, OverlayOutcome};
use crate::view::widget::button_row::ButtonRow;
use crate::view::widget::frame::{
    FRAME_SIZE, draw_frame, hidden_lines_label, is_cancel_key, split_rows,
};
use crate::view::widget::input::{InputFocus, KeyOutcome};
use crate::view::widget::scroll::Scroll;

/// How a line of an entry begins that points out a danger.
const WARNING_LABEL: &str = "Warning:";

/// A server of the project or of a plugin that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectServer {
    /// Its name.
    pub name: String,
    /// Where it is defined, as it is displayed.
    pub origin: String,
    /// The fingerprint of what is shown.
    pub fingerprint: String,
    /// What it would run or reach, with secrets masked.
    pub entry: String,
    /// Why it needs approval.
    pub pending: PendingReason,
    /// Does its entry ask that its tools run without permission requests?
    pub wants_trust: bool,
    /// Who wrote its definition.
    pub definer: ServerDefiner,
}

/// Who wrote the definition of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerDefiner {
    /// The authors of the project.
    Project,
    /// The author of a plugin.
    Plugin,
}

/// The user's decision on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalChoice {
    /// It may run, as long as it is unchanged.
    Approve,
    /// It may not run.
    Reject,
    /// The user is asked again next time.
    Later,
}

impl ApprovalChoice {
    fn label(self) -> &'static str {
        match self {
            ApprovalChoice::Approve => "approve",
            ApprovalChoice::Reject => "reject",
            ApprovalChoice::Later => "later",
        }
    }

    fn tone(self) -> Tone {
        match self {
            ApprovalChoice::Approve => Tone::Success,
            ApprovalChoice::Reject => Tone::Error,
            ApprovalChoice::Later => Tone::Muted,
        }
    }

    fn next(self) -> ApprovalChoice {
        match self {
            ApprovalChoice::Later => ApprovalChoice::Approve,
            ApprovalChoice::Approve => ApprovalChoice::Reject,
            ApprovalChoice::Reject => ApprovalChoice::Later,
        }
    }

    fn previous(self) -> ApprovalChoice {
        self.next().next()
    }
}

/// The dialog.
#[derive(Debug)]
pub struct ProjectServersDialog {
    servers: Vec<ProjectServer>,
    choices: Vec<ApprovalChoice>,
    /// The focused server; one past the last server, the buttons.
    focused: usize,
    buttons: ButtonRow,
    scroll: Scroll,
    follows_focus: bool,
    reply: Option<oneshot::Sender<Vec<ApprovalChoice>>>,
}

impl ProjectServersDialog {
    /// A dialog whose decisions go to `reply`.
    pub fn new(
        servers: Vec<ProjectServer>,
        reply: oneshot::Sender<Vec<ApprovalChoice>>,
    ) -> ProjectServersDialog {
        let choices = vec![ApprovalChoice::Later; servers.len()];
        let all = match has_plugins(&servers) {
            true => "Approve all",
            false => "Approve all in this project",
        };
        let labels = ["Done", all, "Reject all"];
        let buttons = ButtonRow::new(&labels, 0);
        let (focused, scroll) = (0, Scroll::default());
        ProjectServersDialog {
            servers,
            choices,
            focused,
            buttons,
            scroll,
            follows_focus: true,
            reply: Some(reply),
        }
    }

    fn focus(&self, at: usize) -> InputFocus {
        if self.focused == at { InputFocus::Focused } else { InputFocus::Unfocused }
    }

    fn focus_server(&mut self, at: usize) -> OverlayOutcome {
        self.focused = at.min(self.servers.len());
        self.follows_focus = true;
        OverlayOutcome::Stay
    }

    fn answer(&mut self, choices: Vec<ApprovalChoice>) -> OverlayOutcome {
        if let Some(reply) = self.reply.take() {
            let _caller_gone = reply.send(choices);
        }
        OverlayOutcome::Close
    }

    fn confirm(&mut self) -> OverlayOutcome {
        let all = |choice| vec![choice; self.servers.len()];
        match self.buttons.selected {
            0 => self.answer(self.choices.clone()),
            1 => self.answer(all(ApprovalChoice::Approve)),
            _ => self.answer(all(ApprovalChoice::Reject)),
        }
    }

    fn server_text(&self, at: usize, theme: &ScreenTheme) -> RichText {
        let (server, choice) = (&self.servers[at], self.choices[at]);
        let mut content = RichText::default();
        let mark = match (self.focus(at), theme.glyphs) {
            (InputFocus::Unfocused, _) => "  ",
            (InputFocus::Focused, GlyphSet::Unicode) => "▸ ",
            (InputFocus::Focused, GlyphSet::Ascii) => "> ",
        };
        let mut pieces = vec![
            (Tone::Accent, mark.to_owned()),
            (Tone::Strong, server.name.clone()),
            (Tone::Muted, format!("  {}  ", server.origin)),
        ];
        for it in [ApprovalChoice::Later, ApprovalChoice::Approve, ApprovalChoice::Reject] {
            let is_selected = it == choice;
            let text =
                if is_selected { format!("[{}]", it.label()) } else { format!(" {} ", it.label()) };
            pieces.push((if is_selected { it.tone() } else { Tone::Muted }, text));
        }
        content.push_line(4, pieces);
        match server.pending {
            PendingReason::New => {}
            PendingReason::Changed => {
                content.push_indented(4, Tone::Error, "It has changed since you approved it.");
            }
            PendingReason::ProgramChanged => {
                let text = "Its command no longer runs the program that you approved.";
                content.push_indented(4, Tone::Error, text);
            }
        }
        for line in server.entry.lines() {
            let line = line.strip_prefix("  ").unwrap_or(line);
            let is_warning = line.starts_with(WARNING_LABEL);
            let tone = if is_warning { Tone::Warning } else { Tone::Text };
            content.push_indented(4, tone, line);
        }
        if server.wants_trust {
            let text = "It requests trust: its tools would run without asking you.";
            content.push_indented(4, Tone::Warning, text);
        }
        content
    }

    fn layout(
        &self,
        width: u16,
        theme: &ScreenTheme,
    ) -> (Vec<Line<'static>>, Vec<std::ops::Range<usize>>) {
        let (mut lines, mut ranges) = (Vec::new(), Vec::new());
        for at in 0..self.servers.len() {
            let start = lines.len();
            lines.extend(self.server_text(at, theme).layout(width, theme));
            ranges.push(start..lines.len());
        }
        (lines, ranges)
    }

    fn head(&self) -> RichText {
        let mut content = RichText::default();
        let count = self.servers.len();
        let text = match (count, has_plugins(&self.servers)) {
            (1, true) => "A plugin defines a server. It runs programs or reaches addresses on your behalf."
                .to_owned(),
            (_, true) => format!(
                "This project and plugins define {count} servers. They run programs or reach addresses on your behalf."
            ),
            (1, false) => "This project defines a server. It runs programs or reaches addresses on your behalf."
                .to_owned(),
            (_, false) => format!(
                "This project defines {count} servers. They run programs or reach addresses on your behalf."
            ),
        };
        content.push_text(Tone::Text, &text);
        content
    }
}

fn has_plugins(servers: &[ProjectServer]) -> bool {
    servers.iter().any(|it| it.definer == ServerDefiner::Plugin)
}

impl Overlay for ProjectServersDialog {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        let title = match has_plugins(&self.servers) {
            true => "Servers that wait for approval",
            false => "Servers of this project",
        };
        let inner = draw_frame(frame, area, theme, title);
        let head = self.head().layout(inner.width, theme);
        let answers = self.buttons.layout(inner.width, theme, self.focus(self.servers.len()));
        let [above, middle, bottom] = split_rows(inner, head.len(), answers.len());
        draw_lines(frame.buffer_mut(), above, &head);
        draw_lines(frame.buffer_mut(), bottom, &answers);
        let (lines, ranges) = self.layout(middle.width, theme);
        let is_more = lines.len() > usize::from(middle.height) && middle.height > 1;
        let height = if is_more { middle.height - 1 } else { middle.height };
        if self.follows_focus
            && let Some(range) = ranges.get(self.focused)
        {
            self.scroll.scroll_into_view(range.clone(), height);
        }
        let visible = self.scroll.visible(lines.len(), height);
        draw_lines(frame.buffer_mut(), Rect { height, ..middle }, &lines[visible]);
        if is_more {
            let text = hidden_lines_label(self.scroll.hidden_counts(), theme);
            let style = theme.style(Tone::Warning);
            let y = middle.y + height;
            frame.buffer_mut().set_stringn(middle.x, y, text, usize::from(middle.width), style);
        }
    }

    fn on_key(&mut self, key: KeyEvent) -> OverlayOutcome {
        if is_cancel_key(key) {
            return self.answer(vec![ApprovalChoice::Later; self.servers.len()]);
        }
        let is_answers = self.focused >= self.servers.len();
        let page = self.scroll.page_size();
        match (key.code, is_answers) {
            (KeyCode::Down, _) | (KeyCode::Tab | KeyCode::Enter, false) => {
                return self.focus_server(self.focused + 1);
            }
            (KeyCode::Up | KeyCode::BackTab, _) => {
                return self.focus_server(self.focused.saturating_sub(1));
            }
            (KeyCode::Tab, true) => return self.focus_server(0),
            (KeyCode::Enter, true) => return self.confirm(),
            (KeyCode::PageDown, _) => {
                self.follows_focus = false;
                self.scroll.scroll_by(page);
            }
            (KeyCode::PageUp, _) => {
                self.follows_focus = false;
                self.scroll.scroll_by(-page);
            }
            (_, true) => {
                let _not_meant: KeyOutcome = self.buttons.on_key(key);
            }
            (KeyCode::Right | KeyCode::Char(' '), false) => {
                self.choices[self.focused] = self.choices[self.focused].next();
            }
            (KeyCode::Left, false) => {
                self.choices[self.focused] = self.choices[self.focused].previous()
            }
            (KeyCode::Char('a' | 'y'), false) => {
                self.choices[self.focused] = ApprovalChoice::Approve
            }
            (KeyCode::Char('r' | 'n'), false) => {
                self.choices[self.focused] = ApprovalChoice::Reject
            }
            (KeyCode::Char('l'), false) => self.choices[self.focused] = ApprovalChoice::Later,
            (_, false) => {}
        }
        OverlayOutcome::Stay
    }

    fn key_hints(&self) -> Vec<(&'static str, &'static str)> {
        match self.focused < self.servers.len() {
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

impl Dialog for ProjectServersDialog {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|it| !it.is_closed())
    }

    fn preferred_height(&mut self, width: u16, theme: &ScreenTheme) -> u16 {
        let inside = width.saturating_sub(FRAME_SIZE.0);
        let rows = self.head().layout(inside, theme).len()
            + self.layout(inside, theme).0.len()
            + self.buttons.layout(inside, theme, InputFocus::Focused).len();
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME_SIZE.1)
    }
}

#[cfg(test)]
mod tests;
