//! What keys mean to the chat.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use switchboard::config::permission::Mode;
use switchboard_chat::language_model::Usage;

use super::{Act, Chat, answered};
use crate::screen::composer::Reply;
use crate::screen::menu::{Menu, Then};
use crate::screen::slash::{self, Slash};

const NONE: KeyModifiers = KeyModifiers::NONE;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;

/// What is said to free text while there is nobody to answer it.
pub const NO_MODEL: &str = "No model is set, so nobody can answer that.\n\
    hint: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or `model` in your settings (/model says where)\n\
    Every slash command works without one: /help lists them, /call calls a tool.";

/// A search in what was sent before.
#[derive(Debug, Default)]
pub struct Searching {
    /// What is looked for.
    pub text: String,
    /// How many that fit were passed over.
    pub skipped: usize,
}

impl Chat {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Act> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        if !(key.code == KeyCode::Char('c') && key.modifiers == CONTROL) {
            self.leaving = None;
        }
        match (key.code, key.modifiers) {
            (KeyCode::Char('z'), CONTROL) => return vec![Act::Suspend],
            (KeyCode::Char('l'), CONTROL) => return vec![Act::Repaint],
            (_, _) => {}
        }
        if !self.questions.is_empty() {
            let reaction = self.questions.key(key, self.now);
            return answered(reaction);
        }
        if let Some(overlay) = self.overlays.last_mut() {
            let reaction = overlay.key(key);
            return self.react(reaction);
        }
        if self.searching.is_some() {
            return self.search_key(key);
        }
        if self.has_prefix {
            self.has_prefix = false;
            if key.code == KeyCode::Char('e') && key.modifiers == CONTROL {
                return vec![Act::Edit(self.composer.whole())];
            }
        }
        if let Some(acts) = self.menu_key(key) {
            return acts;
        }
        self.view_key(key).unwrap_or_else(|| self.chat_key(key))
    }

    fn menu_key(&mut self, key: KeyEvent) -> Option<Vec<Act>> {
        let menu = self.menu.as_mut()?;
        match (key.code, key.modifiers) {
            (KeyCode::Up, NONE) | (KeyCode::Char('p'), CONTROL) => menu.up(),
            (KeyCode::Down, NONE) | (KeyCode::Char('n'), CONTROL) => menu.down(),
            (KeyCode::Esc, NONE) => {
                self.menu = None;
                self.is_menu_closed = true;
            }
            (KeyCode::Tab, NONE) => {
                if menu.chosen.is_none() {
                    menu.down();
                }
                self.choose();
                return Some(self.ask_server());
            }
            (KeyCode::Enter, NONE) => {
                let typed = &self.composer.draft()[menu.range.clone()];
                let choice = menu.choice().filter(|it| it.value != typed);
                let Some(then) = choice.map(|it| it.then) else {
                    self.menu = None;
                    return None;
                };
                self.choose();
                return Some(match (then, self.asking.is_some()) {
                    (Then::Send, true) => self.answer_argument(),
                    (Then::Send, false) => self.send(),
                    (Then::GoOn, _) => Vec::new(),
                });
            }
            (_, _) => return None,
        }
        Some(Vec::new())
    }

    fn choose(&mut self) {
        let Some(menu) = self.menu.take() else { return };
        let Some(choice) = menu.choice() else { return };
        let is_in_text = menu.range.end < self.composer.draft().len();
        let room = if choice.then == Then::GoOn && !is_in_text { " " } else { "" };
        let text = format!("{}{room}", choice.value);
        self.composer.replace_range(menu.range.clone(), &text);
        self.typed();
    }

    /// Keys that move what is looked at.
    fn view_key(&mut self, key: KeyEvent) -> Option<Vec<Act>> {
        let page = self.transcript.page();
        match (key.code, key.modifiers) {
            (KeyCode::PageUp, _) => self.transcript.scroll_up(page),
            (KeyCode::PageDown, _) => self.transcript.scroll_down(page),
            (KeyCode::Up, SHIFT) => self.transcript.scroll_up(1),
            (KeyCode::Down, SHIFT) => self.transcript.scroll_down(1),
            (KeyCode::Home, CONTROL) => self.transcript.look_at_top(),
            (KeyCode::End, CONTROL) => self.transcript.look_at_bottom(),
            (KeyCode::Up, ALT) => self.transcript.choose_before(),
            (KeyCode::Down, ALT) => self.transcript.choose_after(),
            (KeyCode::Char('o'), CONTROL) => self.transcript.toggle_detail(),
            (_, _) => return None,
        }
        Some(Vec::new())
    }

    fn chat_key(&mut self, key: KeyEvent) -> Vec<Act> {
        match (key.code, key.modifiers) {
            (KeyCode::Esc, NONE) => self.escape(),
            (KeyCode::Char('c'), CONTROL) => self.control_c(),
            (KeyCode::Char('d'), CONTROL) if self.composer.is_empty() => vec![Act::Quit],
            (KeyCode::Char('g'), CONTROL) => vec![Act::Edit(self.composer.whole())],
            (KeyCode::Char('x'), CONTROL) => {
                self.has_prefix = true;
                Vec::new()
            }
            (KeyCode::Char('r'), CONTROL) => {
                self.searching = Some(Searching::default());
                Vec::new()
            }
            (KeyCode::BackTab, _) => self.next_mode(),
            (KeyCode::Tab, NONE) => {
                self.is_menu_closed = false;
                self.look_up();
                self.ask_server()
            }
            (_, _) => self.write(key),
        }
    }

    fn write(&mut self, key: KeyEvent) -> Vec<Act> {
        let before = self.composer.draft().len();
        match self.composer.key(key) {
            Reply::Send if self.asking.is_some() => return self.answer_argument(),
            Reply::Send => return self.send(),
            Reply::Above => return self.above(),
            Reply::Below => {
                if let Some(text) = self.history.after() {
                    self.composer.replace(&text);
                }
            }
            Reply::Taken => {
                let has_changed = self.composer.draft().len() != before;
                if has_changed {
                    self.history.close();
                }
                self.typed();
                if has_changed {
                    return self.ask_server();
                }
            }
            Reply::NotOurs => {}
        }
        Vec::new()
    }

    fn above(&mut self) -> Vec<Act> {
        if self.asking.is_some() {
            return Vec::new();
        }
        if self.composer.is_empty() && !self.queued.is_empty() && !self.history.is_open() {
            return vec![Act::TakeBack];
        }
        let draft = self.composer.whole();
        if let Some(text) = self.history.before(&draft) {
            let text = text.to_owned();
            self.composer.replace(&text);
        }
        Vec::new()
    }

    /// Something was typed: what could stand at the cursor is another list now.
    pub(super) fn typed(&mut self) {
        self.is_menu_closed = false;
        self.look_up();
    }

    pub(super) fn look_up(&mut self) {
        if self.asking.is_some() {
            self.menu = None;
            return;
        }
        if self.is_menu_closed || self.history.is_open() {
            return;
        }
        let (draft, cursor) = (self.composer.draft(), self.composer.cursor());
        let chosen = self.menu.take().and_then(|it| it.choice().map(|it| it.value.clone()));
        self.menu = Menu::of(draft, cursor, &self.pool, &self.snapshot);
        // What changes elsewhere must not move the choice away from under somebody's finger.
        if let (Some(menu), Some(chosen)) = (&mut self.menu, chosen)
            && let Some(at) = menu.choices.iter().position(|it| it.value == chosen)
        {
            menu.chosen = Some(at);
        }
    }

    fn send(&mut self) -> Vec<Act> {
        self.menu = None;
        let text = self.composer.whole();
        if text.trim().is_empty() {
            if self.transcript.has_chosen() {
                self.transcript.toggle_detail();
            }
            return Vec::new();
        }
        let mut acts = vec![Act::Remember(text.clone())];
        self.composer.clear();
        self.history.close();
        self.transcript.choose_none();
        self.transcript.look_at_bottom();
        if text.trim_start().starts_with('/') && !text.trim_end().contains('\n') {
            match slash::parse(&text) {
                Ok(command) => {
                    self.begin_command(&command, &text);
                    acts.push(Act::Run(command));
                }
                Err(why) => {
                    self.transcript.person(&text);
                    self.transcript.fault(&why);
                }
            }
            return acts;
        }
        match &self.model {
            None => {
                self.transcript.person(&text);
                self.transcript.fault(NO_MODEL);
            }
            Some(_) => {
                self.queued.push_back(text.clone());
                acts.push(Act::Say(text));
            }
        }
        acts
    }

    fn begin_command(&mut self, command: &Slash, text: &str) {
        match command {
            Slash::Clear => {
                self.transcript.clear();
                self.queued.clear();
                self.used = Usage::default();
                self.context = 0;
            }
            // These show themselves.
            Slash::Call { .. } | Slash::Mcp(_) | Slash::Quit => {}
            Slash::Help
            | Slash::Tools(_)
            | Slash::Resources(_)
            | Slash::Read { .. }
            | Slash::Permissions
            | Slash::Model(_)
            | Slash::Logs(_)
            | Slash::Doctor(_)
            | Slash::Prompt { .. } => self.transcript.person(text),
        }
    }

    fn escape(&mut self) -> Vec<Act> {
        if self.asking.take().is_some() {
            self.composer.clear();
            self.menu = None;
            return Vec::new();
        }
        if self.is_busy() {
            return vec![Act::Interrupt];
        }
        if self.transcript.has_chosen() {
            self.transcript.choose_none();
            self.transcript.look_at_bottom();
        }
        Vec::new()
    }

    fn control_c(&mut self) -> Vec<Act> {
        if self.is_leaving() {
            return vec![Act::Quit];
        }
        self.leaving = Some(self.now);
        if self.asking.take().is_some() || !self.composer.is_empty() {
            self.composer.clear();
            self.menu = None;
            self.history.close();
            return Vec::new();
        }
        if self.is_busy() { vec![Act::Interrupt] } else { Vec::new() }
    }

    fn next_mode(&mut self) -> Vec<Act> {
        let mode = match self.mode {
            Mode::Default => Mode::AcceptEdits,
            Mode::AcceptEdits => Mode::Plan,
            Mode::Plan | Mode::DontAsk | Mode::Bypass => Mode::Default,
        };
        self.mode = mode;
        vec![Act::SetMode(mode)]
    }

    fn search_key(&mut self, key: KeyEvent) -> Vec<Act> {
        let Some(mut searching) = self.searching.take() else { return Vec::new() };
        match (key.code, key.modifiers) {
            (KeyCode::Char('r'), CONTROL) => {
                let next = searching.skipped + 1;
                if self.history.search(&searching.text, next).is_some() {
                    searching.skipped = next;
                }
            }
            (KeyCode::Char(c), NONE | SHIFT) => {
                searching.text.push(c);
                searching.skipped = 0;
            }
            (KeyCode::Backspace, _) => {
                searching.text.pop();
                searching.skipped = 0;
            }
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'g'), CONTROL) => return Vec::new(),
            (code, _) => {
                let found = self.history.search(&searching.text, searching.skipped);
                if let Some(found) = found.map(str::to_owned) {
                    self.composer.replace(&found);
                    self.menu = None;
                }
                return if code == KeyCode::Enter { self.send() } else { Vec::new() };
            }
        }
        self.searching = Some(searching);
        Vec::new()
    }
}
