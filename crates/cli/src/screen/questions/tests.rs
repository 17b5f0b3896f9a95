//! Tests of the way to the person, with a window that is only a queue.

use std::time::Instant;

use crossterm::event::KeyCode;
use serde_json::json;
use switchboard::config::permission::{Breadth, Suggestion, ToolRule};
use switchboard::pool::tool::Annotations;

use super::queue::DEAF;
use super::*;
use crate::screen::dialog::stage::{LOOK, drawn, key, play, seen, squeeze};
use crate::screen::overlay::{Overlay, Reaction, Redraw};

fn circumstances() -> Circumstances {
    Circumstances {
        rule_file: "settings.json".to_owned(),
        working_folder: std::env::temp_dir(),
        opener: Arc::new(|_| Err(io::Error::from(io::ErrorKind::NotFound))),
    }
}

fn form_inquiry(server: &str) -> Inquiry {
    let params = json!({"message": "who?", "requestedSchema": {"properties": {}}});
    let subject = Subject::elicitation(&params).expect("a form");
    Inquiry { server: server.to_owned(), subject }
}

fn visit_inquiry() -> Inquiry {
    let params = json!({"mode": "url", "message": "Connect your account", "elicitationId": "1",
        "url": "https://accounts.example.com/connect?user=17&next=https%3A%2F%2Fapp.example.com%2Fdone"});
    Inquiry { server: "bank".to_owned(), subject: Subject::elicitation(&params).expect("a visit") }
}

/// The window, as far as questions go.
struct Window {
    arrivals: Arrivals,
    queue: Queue,
    now: Instant,
}

impl Window {
    fn new(arrivals: Arrivals) -> Window {
        Window { arrivals, queue: Queue::default(), now: Instant::now() }
    }

    async fn hear(&mut self) {
        match self.arrivals.next().await.expect("somebody who asks") {
            Arrival::Asked(question) => self.queue.take(question),
            Arrival::Withdrawn => {
                self.queue.tidy();
            }
            Arrival::Note(_) => {}
        }
    }

    /// Until so many questions are there.
    async fn hear_until(&mut self, count: usize) {
        while self.queue.len() != count {
            tokio::time::timeout(Duration::from_secs(5), self.hear()).await.expect("in time");
        }
    }

    fn look(&mut self) -> String {
        let now = self.now;
        seen((80, 24), |frame| {
            let place = self.queue.place(frame.area(), &LOOK);
            self.queue.draw(frame, place, &LOOK, now);
        })
    }

    fn press(&mut self, code: KeyCode) -> Reaction {
        self.queue.key(key(code), self.now)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

fn ask(questions: &Questions, inquiry: Inquiry) -> tokio::task::JoinHandle<Reply> {
    let questions = questions.clone();
    tokio::spawn(async move { questions.ask(&inquiry).await })
}

#[tokio::test]
async fn questions_come_one_at_a_time_in_their_order() {
    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let mut answers = Vec::new();
    for (at, name) in ["one", "two", "three"].into_iter().enumerate() {
        answers.push(ask(&questions, form_inquiry(name)));
        window.hear_until(at + 1).await;
    }
    for (name, count) in [("one", "1 of 3"), ("two", "1 of 2"), ("three", "")] {
        let text = window.look();
        assert!(text.contains(&format!("{name} asks")) && text.contains(count), "{text}");
        window.pass(DEAF);
        assert!(matches!(window.press(KeyCode::Enter), Reaction::Close));
    }
    assert!(window.queue.is_empty());
    for answer in answers {
        assert_eq!(answer.await.expect("asked"), Reply::Accept(Map::new()));
    }
}

#[tokio::test]
async fn what_was_typed_ahead_answers_nothing() {
    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let answer = ask(&questions, form_inquiry("s"));
    window.hear_until(1).await;
    // Not drawn yet, whatever the clock says.
    window.pass(DEAF * 10);
    assert!(matches!(window.press(KeyCode::Enter), Reaction::Stay));
    window.look();
    for _ in 0..10 {
        window.pass(DEAF - Duration::from_millis(1));
        assert!(matches!(window.press(KeyCode::Enter), Reaction::Stay));
        window.queue.paste("\n", window.now);
    }
    window.pass(DEAF);
    assert!(matches!(window.press(KeyCode::Enter), Reaction::Close));
    assert_eq!(answer.await.expect("asked"), Reply::Accept(Map::new()));
}

#[tokio::test]
async fn the_answer_to_one_question_is_not_the_answer_to_the_next() {
    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let _answers = [ask(&questions, form_inquiry("a")), ask(&questions, form_inquiry("b"))];
    window.hear_until(2).await;
    window.look();
    window.pass(DEAF);
    assert!(matches!(window.press(KeyCode::Enter), Reaction::Close));
    assert!(matches!(window.press(KeyCode::Enter), Reaction::Stay));
    window.look();
    assert!(matches!(window.press(KeyCode::Enter), Reaction::Stay));
    assert_eq!(window.queue.len(), 1);
}

#[tokio::test]
async fn a_question_that_is_withdrawn_leaves_the_screen() {
    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let first = ask(&questions, form_inquiry("first"));
    window.hear_until(1).await;
    let _second = ask(&questions, form_inquiry("second"));
    window.hear_until(2).await;
    assert!(window.look().contains("first asks"));
    first.abort();
    window.hear_until(1).await;
    assert!(window.look().contains("second asks"));
    assert_eq!(window.queue.tidy(), Redraw::No);
}

#[tokio::test]
async fn a_window_that_ends_answers_no_to_everything() {
    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let shown = ask(&questions, form_inquiry("shown"));
    window.hear_until(1).await;
    let waits = ask(&questions, form_inquiry("waits"));
    while questions.arrivals.capacity() == WAITING {
        tokio::task::yield_now().await;
    }
    drop(window);
    let late = ask(&questions, form_inquiry("late"));
    for answer in [shown, waits, late] {
        assert_eq!(answer.await.expect("asked"), gone());
    }
    assert_eq!(questions.waited(&visit_inquiry()).await, Waited::GivenUp);
    assert_eq!(questions.project(Vec::new()).await, Vec::new());
}

#[tokio::test]
async fn a_page_that_cannot_be_opened_is_asked_about_again() {
    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let answer = ask(&questions, visit_inquiry());
    window.hear_until(1).await;
    insta::assert_snapshot!("visit_80", window.look());
    window.pass(DEAF);
    window.press(KeyCode::Char('1'));
    window.press(KeyCode::Enter);
    window.hear_until(1).await;
    assert!(window.look().contains("no browser could be started"));
    window.pass(DEAF);
    window.press(KeyCode::Char('2'));
    window.press(KeyCode::Enter);
    assert_eq!(answer.await.expect("asked"), Reply::Accept(Map::new()));
}

#[tokio::test]
async fn a_page_is_not_visited_by_a_thoughtless_key() {
    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let answer = ask(&questions, visit_inquiry());
    window.hear_until(1).await;
    window.look();
    window.pass(DEAF);
    window.press(KeyCode::Enter);
    assert_eq!(answer.await.expect("asked"), Reply::Decline(SAID_NO.to_owned()));
}

#[tokio::test]
async fn who_waits_lets_questions_pass() {
    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let waiting = {
        let questions = questions.clone();
        tokio::spawn(async move { questions.wait(&visit_inquiry()).await })
    };
    window.hear_until(1).await;
    insta::assert_snapshot!("wait_80", window.look());
    let answer = ask(&questions, form_inquiry("s"));
    window.hear_until(2).await;
    assert!(window.look().contains("s asks"));
    window.pass(DEAF);
    window.press(KeyCode::Esc);
    answer.await.expect("asked");
    assert!(window.look().contains("bank waits for you"));
    assert!(matches!(window.press(KeyCode::Char('r')), Reaction::Stay));
    window.pass(DEAF);
    assert!(matches!(window.press(KeyCode::Char('r')), Reaction::Close));
    assert_eq!(waiting.await.expect("waited"), Waited::Enough);
}

#[tokio::test]
async fn a_file_that_would_change_is_compared_before_anybody_is_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.txt"), "old\n").expect("written");
    let of_folder = Circumstances { working_folder: folder.path().to_owned(), ..circumstances() };
    let (questions, _arrivals) = channel(of_folder);
    let call = |path: &str| ProposedCall {
        caller: "chat".to_owned(),
        server: "s".to_owned(),
        tool: "write".to_owned(),
        title: None,
        annotations: Annotations::default(),
        flags: Vec::new(),
        arguments: json!({"path": path, "content": "new\n"}),
        edit: None,
        because: String::new(),
        suggestions: vec![Suggestion {
            breadth: Breadth::Tool,
            rule: ToolRule::parse("mcp__s__write").expect("a rule"),
        }],
        alteration: None,
        rule_file: String::new(),
    };
    let preview = questions.preview(&call("a.txt")).await.expect("a preview");
    assert_eq!(preview.lines.len(), 2);
    assert_eq!(questions.preview(&call("b.txt")).await, None);
}

#[tokio::test]
async fn a_servers_wish_for_the_model_is_shown_and_refused_unless_somebody_agrees() {
    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let params = json!({"systemPrompt": "Be brief.", "maxTokens": 100,
        "messages": [{"role": "user", "content": {"type": "text", "text": "Summarise:\nall of it"}}]});
    let subject = Subject::Sample(Sample::read(&params));
    for (keys, expected) in [
        (&[KeyCode::Enter][..], Reply::Decline(SAID_NO.to_owned())),
        (&[KeyCode::Left, KeyCode::Enter], Reply::Accept(Map::new())),
    ] {
        let inquiry = Inquiry { server: "s".to_owned(), subject: subject.clone() };
        let answer = ask(&questions, inquiry);
        window.hear_until(1).await;
        insta::assert_snapshot!("sample_80", window.look());
        window.pass(DEAF);
        for code in keys {
            window.press(*code);
        }
        assert_eq!(answer.await.expect("asked"), expected);
    }
}

#[tokio::test]
async fn signing_in_takes_what_is_pasted_and_says_why_it_is_not_taken() {
    use crate::signpost::Showing;
    use switchboard::auth::escort::Guide;

    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let url = Url::parse("https://login.example.com/authorize?client_id=a&state=b").expect("a URL");
    let (guide, _departure) = ScreenGuide::new(&questions, Showing::Browser, "`github`");
    let guide = Arc::new(guide);
    let visit = || {
        let (guide, url) = (guide.clone(), url.clone());
        tokio::spawn(async move { guide.visit(&url).await })
    };
    let first = visit();
    window.hear_until(1).await;
    insta::assert_snapshot!("login_80", window.look());
    window.pass(DEAF);
    assert!(matches!(window.press(KeyCode::Enter), Reaction::Stay));
    window.queue.paste("http://localhost/?code=1\n", window.now);
    window.press(KeyCode::Enter);
    assert_eq!(first.await.expect("visited").as_deref(), Some("http://localhost/?code=1"));
    guide.not_taken("the state is another");
    let second = visit();
    window.hear_until(1).await;
    assert!(window.look().contains("That is not taken: the state is another"));
    // The browser came back after all.
    second.abort();
    window.hear_until(0).await;
    let third = visit();
    window.hear_until(1).await;
    window.look();
    window.pass(DEAF);
    window.press(KeyCode::Esc);
    assert_eq!(third.await.expect("visited"), None);
}

#[tokio::test]
async fn a_code_stays_on_the_screen_until_the_login_is_over() {
    use crate::signpost::Showing;
    use switchboard::auth::escort::Guide;
    use switchboard::auth::flow::Instructions;

    let (questions, arrivals) = channel(circumstances());
    let mut window = Window::new(arrivals);
    let (guide, mut departure) = ScreenGuide::new(&questions, Showing::Words, "`github`");
    let instructions = Instructions {
        url: Url::parse("https://example.com/device").expect("a URL"),
        complete_url: Url::parse("https://example.com/device?code=ABCD").ok(),
        code: "ABCD-EFGH".to_owned(),
        expires_in: 900,
        interval: 5,
    };
    guide.show(&instructions).expect("shown");
    window.hear_until(1).await;
    insta::assert_snapshot!("code_80", window.look());
    window.pass(DEAF);
    window.press(KeyCode::Esc);
    tokio::time::timeout(Duration::from_secs(5), departure.left()).await.expect("they left");
    guide.show(&instructions).expect("shown");
    window.hear_until(1).await;
    drop(departure);
    window.queue.tidy();
    assert!(window.queue.is_empty());
}

#[test]
fn small_screens_do_no_harm() {
    let Subject::Visit(visit) = visit_inquiry().subject else { panic!("a visit") };
    let (reply, _answer) = oneshot::channel();
    let mut dialogs: Vec<Box<dyn Dialog>> =
        vec![Question::Visit("s".to_owned(), visit.clone(), None, reply).dialog()];
    let (reply, _answer) = oneshot::channel();
    dialogs.push(Question::Wait("s".to_owned(), visit.clone(), reply).dialog());
    let (reply, _answer) = oneshot::channel();
    let way = crate::screen::dialog::login_dialog::Way::Shown;
    let page = LoginPage { whom: "漢字".repeat(40), url: visit.url, way, refusal: None };
    dialogs.push(Question::SignIn(page, reply).dialog());
    for dialog in &mut dialogs {
        let overlay: &mut dyn Overlay = dialog.as_mut();
        squeeze(overlay);
        play(overlay, &[KeyCode::Down, KeyCode::End, KeyCode::Right]);
        squeeze(overlay);
        drawn(overlay, (120, 40));
    }
}
