//! Tests of the elicitor, with a screen that is only a queue of dialogs.

use std::time::Instant;

use crossterm::event::KeyCode;
use serde_json::json;
use switchboard::config::permission::{RuleCoverage, Suggestion, ToolRule};
use switchboard::elicitation::SamplingRequest;
use switchboard::pool::Annotations;

use super::*;
use crate::view::dialog::login::LoginPage;
use crate::view::dialog::queue::{DialogQueue, INPUT_DELAY};
use crate::view::overlay::{Dialog, Overlay, OverlayOutcome, Redraw};
use crate::view::test_support::{
    TEST_THEME, key, press, render, render_at_small_sizes, render_overlay,
};

fn context() -> ElicitorContext {
    ElicitorContext {
        rule_file: "settings.json".to_owned(),
        working_folder: std::env::temp_dir(),
        open_url: Arc::new(|_| Err(io::Error::from(io::ErrorKind::NotFound))),
        browser_mode: BrowserMode::Open,
    }
}

fn form_elicitation(server: &str) -> Elicitation {
    let params = json!({"message": "who?", "requestedSchema": {"properties": {}}});
    let kind = ElicitationKind::parse(&params).expect("a form");
    Elicitation { server: server.to_owned(), kind }
}

fn url_elicitation() -> Elicitation {
    let params = json!({"mode": "url", "message": "Connect your account", "elicitationId": "1",
        "url": "https://accounts.example.com/connect?user=17&next=https%3A%2F%2Fapp.example.com%2Fdone"});
    Elicitation {
        server: "bank".to_owned(),
        kind: ElicitationKind::parse(&params).expect("a visit"),
    }
}

/// The screen, as far as dialogs go.
struct TestScreen {
    messages: ElicitorReceiver,
    queue: DialogQueue,
    now: Instant,
}

impl TestScreen {
    fn new(messages: ElicitorReceiver) -> TestScreen {
        TestScreen { messages, queue: DialogQueue::default(), now: Instant::now() }
    }

    async fn receive(&mut self) {
        match self.messages.next().await.expect("a message") {
            ElicitorMessage::Request(question) => self.queue.push(question),
            ElicitorMessage::Withdrawn => {
                self.queue.remove_withdrawn();
            }
            ElicitorMessage::Note(_) => {}
        }
    }

    /// Receives until this many dialogs are open.
    async fn receive_until(&mut self, count: usize) {
        while self.queue.len() != count {
            tokio::time::timeout(Duration::from_secs(5), self.receive()).await.expect("in time");
        }
    }

    fn render(&mut self) -> String {
        let now = self.now;
        render((80, 24), |frame| {
            let place = self.queue.area(frame.area(), &TEST_THEME);
            self.queue.draw(frame, place, &TEST_THEME, now);
        })
    }

    fn press(&mut self, code: KeyCode) -> OverlayOutcome {
        self.queue.on_key(key(code), self.now)
    }

    fn advance_clock(&mut self, time: Duration) {
        self.now += time;
    }
}

fn ask(
    elicitor: &ScreenElicitor,
    elicitation: Elicitation,
) -> tokio::task::JoinHandle<ElicitResult> {
    let elicitor = elicitor.clone();
    tokio::spawn(async move { elicitor.elicit(&elicitation).await })
}

#[tokio::test]
async fn questions_come_one_at_a_time_in_their_order() {
    let (elicitor, messages) = channel(context());
    let mut screen = TestScreen::new(messages);
    let mut answers = Vec::new();
    for (at, name) in ["one", "two", "three"].into_iter().enumerate() {
        answers.push(ask(&elicitor, form_elicitation(name)));
        screen.receive_until(at + 1).await;
    }
    for (name, count) in [("one", "1 of 3"), ("two", "1 of 2"), ("three", "")] {
        let text = screen.render();
        assert!(text.contains(&format!("{name} asks")) && text.contains(count), "{text}");
        screen.advance_clock(INPUT_DELAY);
        assert!(matches!(screen.press(KeyCode::Enter), OverlayOutcome::Close));
    }
    assert!(screen.queue.is_empty());
    for answer in answers {
        assert_eq!(answer.await.expect("asked"), ElicitResult::Accept(Map::new()));
    }
}

#[tokio::test]
async fn keys_typed_ahead_do_not_answer_a_dialog() {
    let (elicitor, messages) = channel(context());
    let mut screen = TestScreen::new(messages);
    let answer = ask(&elicitor, form_elicitation("s"));
    screen.receive_until(1).await;
    // It is not drawn yet, however late it is.
    screen.advance_clock(INPUT_DELAY * 10);
    assert!(matches!(screen.press(KeyCode::Enter), OverlayOutcome::Stay));
    screen.render();
    for _ in 0..10 {
        screen.advance_clock(INPUT_DELAY - Duration::from_millis(1));
        assert!(matches!(screen.press(KeyCode::Enter), OverlayOutcome::Stay));
        screen.queue.on_paste("\n", screen.now);
    }
    screen.advance_clock(INPUT_DELAY);
    assert!(matches!(screen.press(KeyCode::Enter), OverlayOutcome::Close));
    assert_eq!(answer.await.expect("asked"), ElicitResult::Accept(Map::new()));
}

#[tokio::test]
async fn the_answer_to_one_question_is_not_the_answer_to_the_next() {
    let (elicitor, messages) = channel(context());
    let mut screen = TestScreen::new(messages);
    let _answers = [ask(&elicitor, form_elicitation("a")), ask(&elicitor, form_elicitation("b"))];
    screen.receive_until(2).await;
    screen.render();
    screen.advance_clock(INPUT_DELAY);
    assert!(matches!(screen.press(KeyCode::Enter), OverlayOutcome::Close));
    assert!(matches!(screen.press(KeyCode::Enter), OverlayOutcome::Stay));
    screen.render();
    assert!(matches!(screen.press(KeyCode::Enter), OverlayOutcome::Stay));
    assert_eq!(screen.queue.len(), 1);
}

#[tokio::test]
async fn a_question_that_is_withdrawn_leaves_the_screen() {
    let (elicitor, messages) = channel(context());
    let mut screen = TestScreen::new(messages);
    let first = ask(&elicitor, form_elicitation("first"));
    screen.receive_until(1).await;
    let _second = ask(&elicitor, form_elicitation("second"));
    screen.receive_until(2).await;
    assert!(screen.render().contains("first asks"));
    first.abort();
    screen.receive_until(1).await;
    assert!(screen.render().contains("second asks"));
    assert_eq!(screen.queue.remove_withdrawn(), Redraw::No);
}

#[tokio::test]
async fn a_closed_screen_denies_everything() {
    let (elicitor, messages) = channel(context());
    let mut screen = TestScreen::new(messages);
    let shown = ask(&elicitor, form_elicitation("shown"));
    screen.receive_until(1).await;
    let waits = ask(&elicitor, form_elicitation("waits"));
    while elicitor.messages.capacity() == REQUEST_BUFFER {
        tokio::task::yield_now().await;
    }
    drop(screen);
    let late = ask(&elicitor, form_elicitation("late"));
    for answer in [shown, waits, late] {
        assert_eq!(answer.await.expect("asked"), no_answer());
    }
    assert_eq!(elicitor.wait_for_url(&url_elicitation()).await, WaitOutcome::GivenUp);
    assert_eq!(elicitor.request_project_approvals(Vec::new()).await, Vec::new());
}

#[tokio::test]
async fn a_page_that_cannot_be_opened_is_asked_about_again() {
    let (elicitor, messages) = channel(context());
    let mut screen = TestScreen::new(messages);
    let answer = ask(&elicitor, url_elicitation());
    screen.receive_until(1).await;
    insta::assert_snapshot!("url_elicitation_80", screen.render());
    screen.advance_clock(INPUT_DELAY);
    screen.press(KeyCode::Char('1'));
    screen.press(KeyCode::Enter);
    screen.receive_until(1).await;
    assert!(screen.render().contains("no browser could be started"));
    screen.advance_clock(INPUT_DELAY);
    screen.press(KeyCode::Char('2'));
    screen.press(KeyCode::Enter);
    assert_eq!(answer.await.expect("asked"), ElicitResult::Accept(Map::new()));
}

#[tokio::test]
async fn enter_alone_does_not_open_a_url() {
    let (elicitor, messages) = channel(context());
    let mut screen = TestScreen::new(messages);
    let answer = ask(&elicitor, url_elicitation());
    screen.receive_until(1).await;
    screen.render();
    screen.advance_clock(INPUT_DELAY);
    screen.press(KeyCode::Enter);
    assert_eq!(answer.await.expect("asked"), ElicitResult::Decline(DENIED_BY_USER.to_owned()));
}

#[tokio::test]
async fn questions_go_before_a_dialog_that_only_waits() {
    let (elicitor, messages) = channel(context());
    let mut screen = TestScreen::new(messages);
    let waiting = {
        let elicitor = elicitor.clone();
        tokio::spawn(async move { elicitor.wait_for_completion(&url_elicitation()).await })
    };
    screen.receive_until(1).await;
    insta::assert_snapshot!("wait_80", screen.render());
    let answer = ask(&elicitor, form_elicitation("s"));
    screen.receive_until(2).await;
    assert!(screen.render().contains("s asks"));
    screen.advance_clock(INPUT_DELAY);
    screen.press(KeyCode::Esc);
    answer.await.expect("asked");
    assert!(screen.render().contains("bank is waiting for you"));
    assert!(matches!(screen.press(KeyCode::Char('r')), OverlayOutcome::Stay));
    screen.advance_clock(INPUT_DELAY);
    assert!(matches!(screen.press(KeyCode::Char('r')), OverlayOutcome::Close));
    assert_eq!(waiting.await.expect("waited"), WaitOutcome::Retry);
}

#[tokio::test]
async fn a_file_that_would_change_is_compared_before_the_user_is_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.txt"), "old\n").expect("written");
    let of_folder = ElicitorContext { working_folder: folder.path().to_owned(), ..context() };
    let (elicitor, _arrivals) = channel(of_folder);
    let call = |path: &str| ProposedCall {
        caller: "chat".to_owned(),
        server: "s".to_owned(),
        tool: "write".to_owned(),
        title: None,
        annotations: Annotations::default(),
        warnings: Vec::new(),
        arguments: json!({"path": path, "content": "new\n"}),
        edit: None,
        reason: String::new(),
        suggestions: vec![Suggestion {
            coverage: RuleCoverage::Tool,
            rule: ToolRule::parse("mcp__s__write").expect("a rule"),
        }],
        pin_change: None,
        rule_file: String::new(),
    };
    let preview = elicitor.preview_edit(&call("a.txt")).await.expect("a preview");
    assert_eq!(preview.lines.len(), 2);
    assert_eq!(elicitor.preview_edit(&call("b.txt")).await, None);
}

#[tokio::test]
async fn a_sampling_request_is_shown_and_declined_unless_the_user_agrees() {
    let (elicitor, messages) = channel(context());
    let mut screen = TestScreen::new(messages);
    let params = json!({"systemPrompt": "Be brief.", "maxTokens": 100,
        "messages": [{"role": "user", "content": {"type": "text", "text": "Summarise:\nall of it"}}]});
    let kind = ElicitationKind::Sampling(SamplingRequest::parse(&params));
    for (keys, expected) in [
        (&[KeyCode::Enter][..], ElicitResult::Decline(DENIED_BY_USER.to_owned())),
        (&[KeyCode::Left, KeyCode::Enter], ElicitResult::Accept(Map::new())),
    ] {
        let elicitation = Elicitation { server: "s".to_owned(), kind: kind.clone() };
        let answer = ask(&elicitor, elicitation);
        screen.receive_until(1).await;
        insta::assert_snapshot!("sample_80", screen.render());
        screen.advance_clock(INPUT_DELAY);
        for code in keys {
            screen.press(*code);
        }
        assert_eq!(answer.await.expect("asked"), expected);
    }
}

#[tokio::test]
async fn a_login_takes_pasted_text_and_shows_why_it_was_rejected() {
    use switchboard::auth::browser::browser_flow::LoginPrompt;

    let (elicitor, messages) = channel(context());
    let mut screen = TestScreen::new(messages);
    let url = Url::parse("https://login.example.com/authorize?client_id=a&state=b").expect("a URL");
    let (guide, _departure) = ScreenLoginGuide::new(&elicitor, "`github`");
    let guide = Arc::new(guide);
    let url_request = || {
        let (guide, url) = (guide.clone(), url.clone());
        tokio::spawn(async move { guide.open_url(&url).await })
    };
    let first = url_request();
    screen.receive_until(1).await;
    insta::assert_snapshot!("login_80", screen.render());
    screen.advance_clock(INPUT_DELAY);
    assert!(matches!(screen.press(KeyCode::Enter), OverlayOutcome::Stay));
    screen.queue.on_paste("http://localhost/?code=1\n", screen.now);
    screen.press(KeyCode::Enter);
    assert_eq!(first.await.expect("visited").as_deref(), Some("http://localhost/?code=1"));
    guide.callback_rejected("the state is another");
    let second = url_request();
    screen.receive_until(1).await;
    assert!(screen.render().contains("Not accepted: the state is another"));
    // The browser came back.
    second.abort();
    screen.receive_until(0).await;
    let third = url_request();
    screen.receive_until(1).await;
    screen.render();
    screen.advance_clock(INPUT_DELAY);
    screen.press(KeyCode::Esc);
    assert_eq!(third.await.expect("visited"), None);
}

#[tokio::test]
async fn a_code_stays_on_the_screen_until_the_login_is_over() {
    use switchboard::auth::browser::browser_flow::LoginPrompt;
    use switchboard::auth::flow::DeviceAuthorization;

    let shown = ElicitorContext { browser_mode: BrowserMode::ShowUrl, ..context() };
    let (elicitor, messages) = channel(shown);
    let mut screen = TestScreen::new(messages);
    let (guide, mut cancellation) = ScreenLoginGuide::new(&elicitor, "`github`");
    let instructions = DeviceAuthorization {
        verification_uri: Url::parse("https://example.com/device").expect("a URL"),
        verification_uri_complete: Url::parse("https://example.com/device?code=ABCD").ok(),
        user_code: "ABCD-EFGH".to_owned(),
        expires_in: 900,
        interval: 5,
    };
    guide.show_device_code(&instructions).expect("shown");
    screen.receive_until(1).await;
    insta::assert_snapshot!("code_80", screen.render());
    screen.advance_clock(INPUT_DELAY);
    screen.press(KeyCode::Esc);
    tokio::time::timeout(Duration::from_secs(5), cancellation.cancelled())
        .await
        .expect("they left");
    guide.show_device_code(&instructions).expect("shown");
    screen.receive_until(1).await;
    drop(cancellation);
    screen.queue.remove_withdrawn();
    assert!(screen.queue.is_empty());
}

#[test]
fn small_screens_do_no_harm() {
    let ElicitationKind::Url(url_request) = url_elicitation().kind else { panic!("a visit") };
    let (reply, _answer) = oneshot::channel();
    let mut dialogs: Vec<Box<dyn Dialog>> =
        vec![DialogRequest::Url("s".to_owned(), url_request.clone(), None, reply).into_dialog()];
    let (reply, _answer) = oneshot::channel();
    dialogs.push(DialogRequest::UrlWait("s".to_owned(), url_request.clone(), reply).into_dialog());
    let (reply, _answer) = oneshot::channel();
    let method = crate::view::dialog::login::LoginGrant::UrlShown;
    let page =
        LoginPage { server: "漢字".repeat(40), url: url_request.url, method, rejection: None };
    dialogs.push(DialogRequest::Login(page, reply).into_dialog());
    for dialog in &mut dialogs {
        let overlay: &mut dyn Overlay = dialog.as_mut();
        render_at_small_sizes(overlay);
        press(overlay, &[KeyCode::Down, KeyCode::End, KeyCode::Right]);
        render_at_small_sizes(overlay);
        render_overlay(overlay, (120, 40));
    }
}
