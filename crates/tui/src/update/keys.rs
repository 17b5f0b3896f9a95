//! What keys do: to dialogs and overlays first, then to the menu, the transcript and the composer.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use switchboard::config::permission::PermissionMode;
use switchboard_chat::model::language_model::Usage;

use super::dialog_effects;
use crate::effects::NO_MODEL;
use crate::effects::effect::Effect;
use crate::slash_command;
use crate::slash_command::SlashCommand;
use crate::state::screen_state::{HistorySearch, ScreenState};
use crate::view::composer::ComposerOutcome;
use crate::view::composer::completion::{CompletionMenu, OnAccept};

const NONE: KeyModifiers = KeyModifiers::NONE;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;

impl ScreenState {
    pub(crate) fn on_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        if !(key.code == KeyCode::Char('c') && key.modifiers == CONTROL) {
            self.quit_requested = None;
        }
        match (key.code, key.modifiers) {
            (KeyCode::Char('z'), CONTROL) => return vec![Effect::Suspend],
            (KeyCode::Char('l'), CONTROL) => return vec![Effect::Repaint],
            (_, _) => {}
        }
        if !self.dialogs.is_empty() {
            let outcome = self.dialogs.on_key(key, self.now);
            return dialog_effects(outcome);
        }
        if let Some(overlay) = self.overlays.last_mut() {
            let outcome = overlay.on_key(key);
            return self.apply_outcome(outcome);
        }
        if self.history_search.is_some() {
            return self.on_search_key(key);
        }
        if self.has_ctrl_x {
            self.has_ctrl_x = false;
            if key.code == KeyCode::Char('e') && key.modifiers == CONTROL {
                return vec![Effect::OpenEditor(self.composer.text_with_pastes())];
            }
        }
        if let Some(effects) = self.on_menu_key(key) {
            return effects;
        }
        self.on_scroll_key(key).unwrap_or_else(|| self.on_chat_key(key))
    }

    fn on_menu_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let menu = self.completions.as_mut()?;
        match (key.code, key.modifiers) {
            (KeyCode::Up, NONE) | (KeyCode::Char('p'), CONTROL) => menu.select_previous(),
            (KeyCode::Down, NONE) | (KeyCode::Char('n'), CONTROL) => menu.select_next(),
            (KeyCode::Esc, NONE) => {
                self.completions = None;
                self.is_menu_dismissed = true;
            }
            (KeyCode::Tab, NONE) => {
                if menu.selected.is_none() {
                    menu.select_next();
                }
                self.accept_candidate();
                return Some(self.request_completions());
            }
            (KeyCode::Enter, NONE) => {
                let typed = &self.composer.draft()[menu.range.clone()];
                let choice = menu.candidate().filter(|it| it.value != typed);
                let Some(on_accept) = choice.map(|it| it.on_accept) else {
                    self.completions = None;
                    return None;
                };
                self.accept_candidate();
                return Some(match (on_accept, self.prompt.is_some()) {
                    (OnAccept::Submit, true) => self.submit_argument(),
                    (OnAccept::Submit, false) => self.send(),
                    (OnAccept::Continue, _) => Vec::new(),
                });
            }
            (_, _) => return None,
        }
        Some(Vec::new())
    }

    fn accept_candidate(&mut self) {
        let Some(menu) = self.completions.take() else { return };
        let Some(choice) = menu.candidate() else { return };
        let is_in_text = menu.range.end < self.composer.draft().len();
        let room = if choice.on_accept == OnAccept::Continue && !is_in_text { " " } else { "" };
        let text = format!("{}{room}", choice.value);
        self.composer.replace_range(menu.range.clone(), &text);
        self.draft_changed();
    }

    /// Keys that scroll the transcript and select entries in it.
    fn on_scroll_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let page = self.transcript.page_size();
        match (key.code, key.modifiers) {
            (KeyCode::PageUp, _) => self.transcript.scroll_up(page),
            (KeyCode::PageDown, _) => self.transcript.scroll_down(page),
            (KeyCode::Up, SHIFT) => self.transcript.scroll_up(1),
            (KeyCode::Down, SHIFT) => self.transcript.scroll_down(1),
            (KeyCode::Home, CONTROL) => self.transcript.scroll_to_top(),
            (KeyCode::End, CONTROL) => self.transcript.scroll_to_bottom(),
            (KeyCode::Up, ALT) => self.transcript.select_previous(),
            (KeyCode::Down, ALT) => self.transcript.select_next(),
            (KeyCode::Char('o'), CONTROL) => self.transcript.toggle_expanded(),
            (_, _) => return None,
        }
        Some(Vec::new())
    }

    fn on_chat_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        match (key.code, key.modifiers) {
            (KeyCode::Esc, NONE) => self.on_escape(),
            (KeyCode::Char('c'), CONTROL) => self.on_ctrl_c(),
            (KeyCode::Char('d'), CONTROL) if self.composer.is_empty() => vec![Effect::Quit],
            (KeyCode::Char('g'), CONTROL) => {
                vec![Effect::OpenEditor(self.composer.text_with_pastes())]
            }
            (KeyCode::Char('x'), CONTROL) => {
                self.has_ctrl_x = true;
                Vec::new()
            }
            (KeyCode::Char('r'), CONTROL) => {
                self.history_search = Some(HistorySearch::default());
                Vec::new()
            }
            (KeyCode::BackTab, _) => self.next_mode(),
            (KeyCode::Tab, NONE) => {
                self.is_menu_dismissed = false;
                self.refresh_completions();
                self.request_completions()
            }
            (_, _) => self.on_composer_key(key),
        }
    }

    fn on_composer_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let before = self.composer.draft().len();
        match self.composer.on_key(key) {
            ComposerOutcome::Submit if self.prompt.is_some() => return self.submit_argument(),
            ComposerOutcome::Submit => return self.send(),
            ComposerOutcome::LeftTop => return self.leave_top(),
            ComposerOutcome::LeftBottom => {
                if let Some(text) = self.history.next_entry() {
                    self.composer.replace(&text);
                }
            }
            ComposerOutcome::Handled => {
                let has_changed = self.composer.draft().len() != before;
                if has_changed {
                    self.history.stop_browsing();
                }
                self.draft_changed();
                if has_changed {
                    return self.request_completions();
                }
            }
            ComposerOutcome::Ignored => {}
        }
        Vec::new()
    }

    fn leave_top(&mut self) -> Vec<Effect> {
        if self.prompt.is_some() {
            return Vec::new();
        }
        if self.composer.is_empty() && !self.queued.is_empty() && !self.history.is_browsing() {
            return vec![Effect::WithdrawMessage];
        }
        let draft = self.composer.text_with_pastes();
        if let Some(text) = self.history.previous_entry(&draft) {
            let text = text.to_owned();
            self.composer.replace(&text);
        }
        Vec::new()
    }

    /// Updates the completion menu after a change of the draft.
    pub(crate) fn draft_changed(&mut self) {
        self.is_menu_dismissed = false;
        self.refresh_completions();
    }

    pub(crate) fn refresh_completions(&mut self) {
        if self.prompt.is_some() {
            self.completions = None;
            return;
        }
        if self.is_menu_dismissed || self.history.is_browsing() {
            return;
        }
        let (draft, cursor) = (self.composer.draft(), self.composer.cursor());
        let chosen =
            self.completions.take().and_then(|it| it.candidate().map(|it| it.value.clone()));
        self.completions = CompletionMenu::for_draft(draft, cursor, &self.pool, &self.snapshot);
        // A change of servers or tools keeps the selected candidate.
        if let (Some(menu), Some(chosen)) = (&mut self.completions, chosen)
            && let Some(at) = menu.candidates.iter().position(|it| it.value == chosen)
        {
            menu.selected = Some(at);
        }
    }

    fn send(&mut self) -> Vec<Effect> {
        self.completions = None;
        let text = self.composer.text_with_pastes();
        if text.trim().is_empty() {
            if self.transcript.has_selection() {
                self.transcript.toggle_expanded();
            }
            return Vec::new();
        }
        let mut effects = vec![Effect::SaveHistory(text.clone())];
        self.composer.clear();
        self.history.stop_browsing();
        self.transcript.clear_selection();
        self.transcript.scroll_to_bottom();
        if text.trim_start().starts_with('/') && !text.trim_end().contains('\n') {
            match slash_command::parse(&text) {
                Ok(command) => {
                    self.show_command(&command, &text);
                    effects.push(Effect::RunCommand(command));
                }
                Err(message) => {
                    self.transcript.push_user(&text);
                    self.transcript.push_error(&message);
                }
            }
            return effects;
        }
        match &self.model {
            None => {
                self.transcript.push_user(&text);
                self.transcript.push_error(NO_MODEL);
            }
            Some(_) => {
                self.queued.push_back(text.clone());
                effects.push(Effect::SendMessage(text));
            }
        }
        effects
    }

    fn show_command(&mut self, command: &SlashCommand, text: &str) {
        match command {
            SlashCommand::Clear => {
                self.transcript.clear();
                self.queued.clear();
                self.usage = Usage::default();
                self.context_tokens = 0;
            }
            // These have an output of their own.
            SlashCommand::Call { .. } | SlashCommand::Mcp(_) | SlashCommand::Quit => {}
            SlashCommand::Help
            | SlashCommand::Tools(_)
            | SlashCommand::Resources(_)
            | SlashCommand::Read { .. }
            | SlashCommand::Permissions
            | SlashCommand::Plugin(_)
            | SlashCommand::Model(_)
            | SlashCommand::Logs(_)
            | SlashCommand::Ide(_)
            | SlashCommand::Registry(_)
            | SlashCommand::Doctor(_)
            | SlashCommand::Prompt { .. } => self.transcript.push_user(text),
        }
    }

    fn on_escape(&mut self) -> Vec<Effect> {
        if self.prompt.take().is_some() {
            self.composer.clear();
            self.completions = None;
            return Vec::new();
        }
        if self.is_busy() {
            return vec![Effect::Interrupt];
        }
        if self.transcript.has_selection() {
            self.transcript.clear_selection();
            self.transcript.scroll_to_bottom();
        }
        Vec::new()
    }

    fn on_ctrl_c(&mut self) -> Vec<Effect> {
        if self.is_quit_pending() {
            return vec![Effect::Quit];
        }
        self.quit_requested = Some(self.now);
        if self.prompt.take().is_some() || !self.composer.is_empty() {
            self.composer.clear();
            self.completions = None;
            self.history.stop_browsing();
            return Vec::new();
        }
        if self.is_busy() { vec![Effect::Interrupt] } else { Vec::new() }
    }

    fn next_mode(&mut self) -> Vec<Effect> {
        let mode = match self.mode {
            PermissionMode::Default => PermissionMode::AcceptEdits,
            PermissionMode::AcceptEdits => PermissionMode::Plan,
            PermissionMode::Plan | PermissionMode::DontAsk | PermissionMode::Bypass => {
                PermissionMode::Default
            }
        };
        self.mode = mode;
        vec![Effect::SetMode(mode)]
    }

    fn on_search_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Some(mut search) = self.history_search.take() else { return Vec::new() };
        match (key.code, key.modifiers) {
            (KeyCode::Char('r'), CONTROL) => {
                let next = search.skipped + 1;
                if self.history.search(&search.text, next).is_some() {
                    search.skipped = next;
                }
            }
            (KeyCode::Char(c), NONE | SHIFT) => {
                search.text.push(c);
                search.skipped = 0;
            }
            (KeyCode::Backspace, _) => {
                search.text.pop();
                search.skipped = 0;
            }
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'g'), CONTROL) => return Vec::new(),
            (code, _) => {
                let found = self.history.search(&search.text, search.skipped);
                if let Some(found) = found.map(str::to_owned) {
                    self.composer.replace(&found);
                    self.completions = None;
                }
                return if code == KeyCode::Enter { self.send() } else { Vec::new() };
            }
        }
        self.history_search = Some(search);
        Vec::new()
    }
}
