//! Tests of the update without a terminal: keys and events in, effects and frames out.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;
use switchboard::config::permission::PermissionMode;
use switchboard_chat::conversation::event::{
    CallOutcome, ConversationEvent, ToolCallView, TurnEnd,
};
use switchboard_chat::model::language_model::{ModelError, ModelErrorKind};

use crate::effects::effect::Effect;
use crate::frame;
use crate::slash_command::SlashCommand;
use crate::state::active_model::ActiveModel;
use crate::state::event::{ScreenEvent, WindowFocus, Withdrawal};
use crate::state::screen_state::ScreenState;
use crate::theme::{GlyphSet, Palette, ScreenTheme};

const TEST_THEME: ScreenTheme = ScreenTheme { palette: Palette::Plain, glyphs: GlyphSet::Unicode };

struct TestScreen {
    chat: ScreenState,
    terminal: Terminal<TestBackend>,
    now: Instant,
}

impl TestScreen {
    fn new(columns: u16, rows: u16) -> TestScreen {
        let now = Instant::now();
        let terminal = Terminal::new(TestBackend::new(columns, rows)).expect("no terminal needed");
        TestScreen {
            chat: ScreenState::new(TEST_THEME, "~/project".to_owned(), now),
            terminal,
            now,
        }
    }

    fn with_model() -> TestScreen {
        let mut screen = TestScreen::new(60, 20);
        let model = ActiveModel { name: "m".to_owned(), context_window: None };
        screen.send(ScreenEvent::Model(Some(model)));
        screen
    }

    fn send(&mut self, event: ScreenEvent) -> Vec<Effect> {
        self.chat.update(event, self.now)
    }

    fn send_conversation_event(&mut self, event: ConversationEvent) {
        self.send(ScreenEvent::Conversation(event));
    }

    fn press(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
        self.send(ScreenEvent::Key(KeyEvent::new(code, modifiers)))
    }

    fn control(&mut self, letter: char) -> Vec<Effect> {
        self.press(KeyCode::Char(letter), KeyModifiers::CONTROL)
    }

    /// Types a text and returns the effects of its last key. A line end is Enter.
    fn type_text(&mut self, text: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for c in text.chars() {
            let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
            effects = self.press(code, KeyModifiers::NONE);
        }
        effects
    }

    fn render(&mut self) -> String {
        let chat = &mut self.chat;
        self.terminal.draw(|frame| frame::draw(chat, frame)).expect("no terminal needed");
        let buffer = self.terminal.backend().buffer();
        let area = buffer.area;
        let row = |y: u16| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..area.height).map(|y| format!("{}\n", row(y).trim_end())).collect()
    }
}

#[test]
fn a_message_is_queued_until_it_is_accepted() {
    let mut screen = TestScreen::with_model();
    let effects = screen.type_text("hello\n");
    assert_eq!(
        effects,
        [Effect::SaveHistory("hello".to_owned()), Effect::SendMessage("hello".to_owned())]
    );
    assert!(screen.render().contains("queued: hello"));
    screen.send_conversation_event(ConversationEvent::MessagesAccepted { count: 1 });
    let shown = screen.render();
    assert!(shown.contains("> hello") && !shown.contains("queued"), "{shown}");
    assert!(shown.contains("working"), "{shown}");
    screen.send_conversation_event(ConversationEvent::TurnEnded(TurnEnd::Finished));
    assert!(!screen.render().contains("working"));
}

#[test]
fn a_queued_message_comes_back_only_if_it_was_not_accepted() {
    let mut screen = TestScreen::with_model();
    screen.type_text("first\n");
    assert_eq!(screen.press(KeyCode::Up, KeyModifiers::NONE), [Effect::WithdrawMessage]);
    screen.send(ScreenEvent::MessageWithdrawn(Withdrawal::TooLate));
    assert!(screen.chat.composer.is_empty());
    screen.send(ScreenEvent::MessageWithdrawn(Withdrawal::Withdrawn));
    assert_eq!(screen.chat.composer.text_with_pastes(), "first");
    assert!(screen.chat.queued.is_empty());
}

#[test]
fn escape_stops_and_two_interrupts_leave() {
    let mut screen = TestScreen::with_model();
    assert_eq!(screen.press(KeyCode::Esc, KeyModifiers::NONE), []);
    screen.send_conversation_event(ConversationEvent::MessagesAccepted { count: 0 });
    assert_eq!(screen.press(KeyCode::Esc, KeyModifiers::NONE), [Effect::Interrupt]);
    screen.send_conversation_event(ConversationEvent::TurnEnded(TurnEnd::Interrupted));
    screen.type_text("draft");
    assert_eq!(screen.control('c'), []);
    assert!(screen.chat.composer.is_empty());
    assert_eq!(screen.control('c'), [Effect::Quit]);
    screen.now += Duration::from_secs(3);
    assert_eq!(screen.control('c'), []);
    assert_eq!(screen.control('d'), [Effect::Quit]);
}

#[test]
fn commands_are_run_whether_there_is_a_model_or_not() {
    let mut screen = TestScreen::new(60, 20);
    let effects = screen.type_text("/tools demo\n");
    assert_eq!(effects[1], Effect::RunCommand(SlashCommand::Tools(Some("demo".to_owned()))));
    let effects = screen.type_text("free text\n");
    assert_eq!(effects, [Effect::SaveHistory("free text".to_owned())]);
    assert!(screen.render().contains("OPENAI_API_KEY"));
}

#[test]
fn the_menu_is_walked_and_taken() {
    let mut screen = TestScreen::new(60, 20);
    screen.type_text("/pe");
    assert!(screen.render().contains("/permissions"));
    let effects = screen.press(KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(effects[1], Effect::RunCommand(SlashCommand::Permissions));
    screen.type_text("/ca");
    screen.press(KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(screen.chat.composer.text_with_pastes(), "/call ");
    screen.press(KeyCode::Esc, KeyModifiers::NONE);
    screen.control('u');
    screen.type_text("/");
    screen.press(KeyCode::Up, KeyModifiers::NONE);
    let effects = screen.press(KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(effects[1], Effect::RunCommand(SlashCommand::Quit));
}

#[test]
fn a_menu_that_was_closed_stays_closed_until_something_is_typed() {
    let mut screen = TestScreen::new(60, 20);
    screen.type_text("/he");
    screen.press(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(screen.chat.completions, None);
    screen.send(ScreenEvent::Servers(std::sync::Arc::default()));
    assert_eq!(screen.chat.completions, None);
    screen.type_text("l");
    assert!(screen.chat.completions.is_some());
}

#[test]
fn shift_tab_goes_round_and_never_to_no_questions_at_all() {
    let mut screen = TestScreen::new(60, 20);
    for mode in [
        PermissionMode::AcceptEdits,
        PermissionMode::Plan,
        PermissionMode::Default,
        PermissionMode::AcceptEdits,
    ] {
        assert_eq!(screen.press(KeyCode::BackTab, KeyModifiers::SHIFT), [Effect::SetMode(mode)]);
    }
    assert!(screen.render().contains("acceptEdits"));
}

#[test]
fn a_failed_attempt_takes_its_words_back() {
    let mut screen = TestScreen::with_model();
    screen.send_conversation_event(ConversationEvent::Text("half an ans".to_owned()));
    let because = "overloaded".to_owned();
    let after = Duration::from_secs(2);
    screen.send_conversation_event(ConversationEvent::Retrying {
        attempt: 1,
        after,
        reason: because,
    });
    let shown = screen.render();
    assert!(!shown.contains("half an ans") && shown.contains("overloaded"), "{shown}");
    let kind = ModelErrorKind::KeyRejected("no".to_owned());
    let error = ModelError { model: "m".to_owned(), status: None, kind };
    screen.send_conversation_event(ConversationEvent::TurnEnded(TurnEnd::Failed(error)));
    assert!(screen.render().contains("hint: check the key"));
}

#[test]
fn the_retries_of_a_response_share_one_line_that_says_what_to_do() {
    let mut screen = TestScreen::with_model();
    for attempt in [1, 2, 3] {
        let reason = "it is overloaded".to_owned();
        let after = Duration::from_secs(2);
        screen.send_conversation_event(ConversationEvent::Text("half".to_owned()));
        screen.send_conversation_event(ConversationEvent::Retrying { attempt, after, reason });
    }
    let shown = screen.render();
    assert_eq!(shown.matches("The model failed").count(), 1, "{shown}");
    assert!(shown.contains("Retry 3 in 2") && shown.contains("Esc"), "{shown}");
}

#[test]
fn a_scrolled_view_stays_and_counts_new_lines() {
    let mut screen = TestScreen::with_model();
    let lines =
        |from: u32, to: u32| (from..to).map(|it| format!("- line {it}\n")).collect::<String>();
    screen.send_conversation_event(ConversationEvent::Text(lines(0, 50)));
    assert!(screen.render().contains("line 49"));
    screen.press(KeyCode::PageUp, KeyModifiers::NONE);
    let before = screen.render();
    assert!(!before.contains("line 49"), "{before}");
    screen.send_conversation_event(ConversationEvent::Text(lines(50, 60)));
    let after = screen.render();
    let top = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    assert_eq!(top(&before), top(&after));
    assert!(after.contains("↓ 10 new lines"), "{after}");
    screen.press(KeyCode::End, KeyModifiers::CONTROL);
    let end = screen.render();
    assert!(end.contains("line 59") && !end.contains("new lines"), "{end}");
    screen.press(KeyCode::Home, KeyModifiers::CONTROL);
    assert!(screen.render().contains("line 0\n"));
}

#[test]
fn one_card_unfolds_alone_when_it_is_chosen() {
    let mut screen = TestScreen::with_model();
    for id in ["a", "b"] {
        let call = ToolCallView {
            id: id.into(),
            tool: "t".into(),
            title: format!("s: {id}"),
            arguments: json!({}),
        };
        screen.send_conversation_event(ConversationEvent::CallStarted(call));
        let text = (1..=6).map(|it| format!("{id}{it}\n")).collect();
        let took = Duration::from_millis(5);
        let ended = CallOutcome::Done;
        screen.send_conversation_event(ConversationEvent::CallEnded {
            id: id.into(),
            outcome: ended,
            text,
            result: None,
            details: None,
            duration: took,
        });
    }
    screen.press(KeyCode::Up, KeyModifiers::ALT);
    screen.control('o');
    let shown = screen.render();
    assert!(shown.contains("b6") && !shown.contains("a6"), "{shown}");
    screen.press(KeyCode::Esc, KeyModifiers::NONE);
    screen.control('o');
    let shown = screen.render();
    assert!(shown.contains("b6") || shown.contains("a6"), "{shown}");
}

#[test]
fn the_bell_rings_where_the_window_has_no_focus() {
    let mut screen = TestScreen::with_model();
    let ended = || ScreenEvent::Conversation(ConversationEvent::TurnEnded(TurnEnd::Finished));
    assert_eq!(screen.send(ended()), []);
    screen.send(ScreenEvent::Focus(WindowFocus::Unfocused));
    assert_eq!(screen.send(ended()), [Effect::RingBell]);
    screen.send(ScreenEvent::Focus(WindowFocus::Focused));
    assert_eq!(screen.send(ended()), []);
}

#[test]
fn it_is_drawn_at_any_size() {
    let mut screen = TestScreen::with_model();
    screen.send_conversation_event(ConversationEvent::Text(
        "# A\n\n| a | b |\n|--|--|\n| 日本語 | x |\n".to_owned(),
    ));
    screen.type_text("日本語 some text that is longer than the window is wide\n/he");
    for (columns, rows) in [(1, 1), (4, 3), (10, 5), (20, 4), (200, 3), (300, 80)] {
        screen.terminal = Terminal::new(TestBackend::new(columns, rows)).expect("no terminal");
        screen.render();
    }
}

#[test]
fn a_long_transcript_is_drawn_as_fast_as_a_short_one() {
    let mut screen = TestScreen::new(120, 40);
    for number in 0..2000 {
        screen.send(ScreenEvent::Note(format!("note {number}\nwith\nfive\nshort\nlines")));
    }
    screen.render();
    let began = Instant::now();
    for _ in 0..100 {
        screen.type_text("x");
        screen.render();
    }
    let each = began.elapsed() / 100;
    // Far more than it needs, far less than laying out everything.
    assert!(each < Duration::from_millis(50), "{each:?}");
}
