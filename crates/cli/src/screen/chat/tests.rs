//! The chat played without a terminal: keys and happenings in, acts and screens out.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;
use switchboard::config::permission::Mode;
use switchboard_chat::happening::{CallEnd, CallSeen, Happening, TurnEnd};
use switchboard_chat::language_model::{ModelError, ModelErrorKind};

use super::{Act, Chat, Event, Focus, ModelSeen, Returned};
use crate::screen::chat_frame;
use crate::screen::look::{Look, Palette, Signs};
use crate::screen::slash::Slash;

const LOOK: Look = Look { palette: Palette::Plain, signs: Signs::Drawn };

struct Stage {
    chat: Chat,
    terminal: Terminal<TestBackend>,
    now: Instant,
}

impl Stage {
    fn new(columns: u16, rows: u16) -> Stage {
        let now = Instant::now();
        let terminal = Terminal::new(TestBackend::new(columns, rows)).expect("no terminal needed");
        Stage { chat: Chat::new(LOOK, "~/project".to_owned(), now), terminal, now }
    }

    fn with_model() -> Stage {
        let mut stage = Stage::new(60, 20);
        let model = ModelSeen { name: "m".to_owned(), window: None };
        stage.hear(Event::Model(Some(model)));
        stage
    }

    fn hear(&mut self, event: Event) -> Vec<Act> {
        self.chat.on(event, self.now)
    }

    fn happen(&mut self, happening: Happening) {
        self.hear(Event::Happened(happening));
    }

    fn press(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Vec<Act> {
        self.hear(Event::Key(KeyEvent::new(code, modifiers)))
    }

    fn control(&mut self, letter: char) -> Vec<Act> {
        self.press(KeyCode::Char(letter), KeyModifiers::CONTROL)
    }

    /// Types a text; the acts of its last key. A line end is Enter.
    fn types(&mut self, text: &str) -> Vec<Act> {
        let mut acts = Vec::new();
        for c in text.chars() {
            let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
            acts = self.press(code, KeyModifiers::NONE);
        }
        acts
    }

    fn shown(&mut self) -> String {
        let chat = &mut self.chat;
        self.terminal.draw(|frame| chat_frame::draw(chat, frame)).expect("no terminal needed");
        let buffer = self.terminal.backend().buffer();
        let area = buffer.area;
        let row = |y: u16| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..area.height).map(|y| format!("{}\n", row(y).trim_end())).collect()
    }
}

#[test]
fn what_is_said_waits_until_it_is_taken_up() {
    let mut stage = Stage::with_model();
    let acts = stage.types("hello\n");
    assert_eq!(acts, [Act::Remember("hello".to_owned()), Act::Say("hello".to_owned())]);
    assert!(stage.shown().contains("queued: hello"));
    stage.happen(Happening::TakenUp { sayings: 1 });
    let shown = stage.shown();
    assert!(shown.contains("> hello") && !shown.contains("queued"), "{shown}");
    assert!(shown.contains("working"), "{shown}");
    stage.happen(Happening::TurnEnded(TurnEnd::Finished));
    assert!(!stage.shown().contains("working"));
}

#[test]
fn what_waits_comes_back_only_if_it_was_not_heard() {
    let mut stage = Stage::with_model();
    stage.types("first\n");
    assert_eq!(stage.press(KeyCode::Up, KeyModifiers::NONE), [Act::TakeBack]);
    stage.hear(Event::TakenBack(Returned::No));
    assert!(stage.chat.composer.is_empty());
    stage.hear(Event::TakenBack(Returned::Yes));
    assert_eq!(stage.chat.composer.whole(), "first");
    assert!(stage.chat.queued.is_empty());
}

#[test]
fn escape_stops_and_two_interrupts_leave() {
    let mut stage = Stage::with_model();
    assert_eq!(stage.press(KeyCode::Esc, KeyModifiers::NONE), []);
    stage.happen(Happening::TakenUp { sayings: 0 });
    assert_eq!(stage.press(KeyCode::Esc, KeyModifiers::NONE), [Act::Interrupt]);
    stage.happen(Happening::TurnEnded(TurnEnd::Interrupted));
    stage.types("draft");
    assert_eq!(stage.control('c'), []);
    assert!(stage.chat.composer.is_empty());
    assert_eq!(stage.control('c'), [Act::Quit]);
    stage.now += Duration::from_secs(3);
    assert_eq!(stage.control('c'), []);
    assert_eq!(stage.control('d'), [Act::Quit]);
}

#[test]
fn commands_are_run_whether_there_is_a_model_or_not() {
    let mut stage = Stage::new(60, 20);
    let acts = stage.types("/tools demo\n");
    assert_eq!(acts[1], Act::Run(Slash::Tools(Some("demo".to_owned()))));
    let acts = stage.types("free text\n");
    assert_eq!(acts, [Act::Remember("free text".to_owned())]);
    assert!(stage.shown().contains("OPENAI_API_KEY"));
}

#[test]
fn the_menu_is_walked_and_taken() {
    let mut stage = Stage::new(60, 20);
    stage.types("/pe");
    assert!(stage.shown().contains("/permissions"));
    let acts = stage.press(KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(acts[1], Act::Run(Slash::Permissions));
    stage.types("/ca");
    stage.press(KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(stage.chat.composer.whole(), "/call ");
    stage.press(KeyCode::Esc, KeyModifiers::NONE);
    stage.control('u');
    stage.types("/");
    stage.press(KeyCode::Up, KeyModifiers::NONE);
    let acts = stage.press(KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(acts[1], Act::Run(Slash::Quit));
}

#[test]
fn a_menu_that_was_closed_stays_closed_until_something_is_typed() {
    let mut stage = Stage::new(60, 20);
    stage.types("/he");
    stage.press(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(stage.chat.menu, None);
    stage.hear(Event::Servers(std::sync::Arc::default()));
    assert_eq!(stage.chat.menu, None);
    stage.types("l");
    assert!(stage.chat.menu.is_some());
}

#[test]
fn shift_tab_goes_round_and_never_to_no_questions_at_all() {
    let mut stage = Stage::new(60, 20);
    for mode in [Mode::AcceptEdits, Mode::Plan, Mode::Default, Mode::AcceptEdits] {
        assert_eq!(stage.press(KeyCode::BackTab, KeyModifiers::SHIFT), [Act::SetMode(mode)]);
    }
    assert!(stage.shown().contains("acceptEdits"));
}

#[test]
fn a_failed_attempt_takes_its_words_back() {
    let mut stage = Stage::with_model();
    stage.happen(Happening::Text("half an ans".to_owned()));
    let because = "overloaded".to_owned();
    let after = Duration::from_secs(2);
    stage.happen(Happening::Again { attempt: 1, after, because });
    let shown = stage.shown();
    assert!(!shown.contains("half an ans") && shown.contains("overloaded"), "{shown}");
    let kind = ModelErrorKind::Key("no".to_owned());
    let error = ModelError { model: "m".to_owned(), kind };
    stage.happen(Happening::TurnEnded(TurnEnd::Failed(error)));
    assert!(stage.shown().contains("hint: check the key"));
}

#[test]
fn who_looks_further_up_stays_there_and_hears_of_new_lines() {
    let mut stage = Stage::with_model();
    let lines =
        |from: u32, to: u32| (from..to).map(|it| format!("- line {it}\n")).collect::<String>();
    stage.happen(Happening::Text(lines(0, 50)));
    assert!(stage.shown().contains("line 49"));
    stage.press(KeyCode::PageUp, KeyModifiers::NONE);
    let before = stage.shown();
    assert!(!before.contains("line 49"), "{before}");
    stage.happen(Happening::Text(lines(50, 60)));
    let after = stage.shown();
    let top = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    assert_eq!(top(&before), top(&after));
    assert!(after.contains("↓ 10 new lines"), "{after}");
    stage.press(KeyCode::End, KeyModifiers::CONTROL);
    let end = stage.shown();
    assert!(end.contains("line 59") && !end.contains("new lines"), "{end}");
    stage.press(KeyCode::Home, KeyModifiers::CONTROL);
    assert!(stage.shown().contains("line 0\n"));
}

#[test]
fn one_card_unfolds_alone_when_it_is_chosen() {
    let mut stage = Stage::with_model();
    for id in ["a", "b"] {
        let call = CallSeen {
            id: id.into(),
            tool: "t".into(),
            title: format!("s: {id}"),
            arguments: json!({}),
        };
        stage.happen(Happening::CallBegan(call));
        let text = (1..=6).map(|it| format!("{id}{it}\n")).collect();
        let took = Duration::from_millis(5);
        let ended = CallEnd::Done;
        stage.happen(Happening::CallEnded { id: id.into(), ended, text, took });
    }
    stage.press(KeyCode::Up, KeyModifiers::ALT);
    stage.control('o');
    let shown = stage.shown();
    assert!(shown.contains("b6") && !shown.contains("a6"), "{shown}");
    stage.press(KeyCode::Esc, KeyModifiers::NONE);
    stage.control('o');
    let shown = stage.shown();
    assert!(shown.contains("b6") || shown.contains("a6"), "{shown}");
}

#[test]
fn whoever_looks_elsewhere_hears_that_it_is_done() {
    let mut stage = Stage::with_model();
    let ended = || Event::Happened(Happening::TurnEnded(TurnEnd::Finished));
    assert_eq!(stage.hear(ended()), []);
    stage.hear(Event::Focus(Focus::Elsewhere));
    assert_eq!(stage.hear(ended()), [Act::Ring]);
    stage.hear(Event::Focus(Focus::Here));
    assert_eq!(stage.hear(ended()), []);
}

#[test]
fn it_is_drawn_at_any_size() {
    let mut stage = Stage::with_model();
    stage.happen(Happening::Text("# A\n\n| a | b |\n|--|--|\n| 日本語 | x |\n".to_owned()));
    stage.types("日本語 some text that is longer than the window is wide\n/he");
    for (columns, rows) in [(1, 1), (4, 3), (10, 5), (20, 4), (200, 3), (300, 80)] {
        stage.terminal = Terminal::new(TestBackend::new(columns, rows)).expect("no terminal");
        stage.shown();
    }
}

#[test]
fn a_long_transcript_is_drawn_as_fast_as_a_short_one() {
    let mut stage = Stage::new(120, 40);
    for number in 0..2000 {
        stage.hear(Event::Note(format!("note {number}\nwith\nfive\nshort\nlines")));
    }
    stage.shown();
    let began = Instant::now();
    for _ in 0..100 {
        stage.types("x");
        stage.shown();
    }
    let each = began.elapsed() / 100;
    // Far more than it takes, far less than going through all of it.
    assert!(each < Duration::from_millis(50), "{each:?}");
}
