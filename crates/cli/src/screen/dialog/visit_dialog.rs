//! A server wants somebody to visit a page: where it leads is said before anything is opened. Afterwards somebody may
//! wait until the server says that it is done. Opening it is left to `questions`.

use switchboard::inquiry::{Visit, Waited};
use tokio::sync::oneshot;

use crate::screen::dialog::Urgency;
use crate::screen::dialog::choice_dialog::{Choice, ChoiceDialog};
use crate::screen::dialog::paper::Paper;
use crate::screen::look::Tone;

/// What somebody says to a page that is to be visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visiting {
    /// It is to be opened.
    Open,
    /// They go there themselves.
    Myself,
    /// No.
    No,
}

fn page(server: &str, visit: &Visit) -> Paper {
    let mut paper = Paper::default();
    let host = visit.url.host_str().unwrap_or_default();
    paper.row(
        2,
        vec![
            (Tone::Text, format!("{server} wants you to visit ")),
            (Tone::Strong, host.to_owned()),
        ],
    );
    if visit.url.scheme() != "https" {
        paper.text(Tone::Doubtful, "The way there is not encrypted.");
    }
    paper
}

fn address(visit: &Visit) -> Paper {
    let mut paper = Paper::default();
    if !visit.message.is_empty() {
        paper.text(Tone::Text, &visit.message);
        paper.gap();
    }
    paper.text(Tone::Link, visit.url.as_str());
    paper
}

/// Asks whether a page is to be visited. `trouble` is why it could not be opened a moment ago.
pub fn visit(
    server: &str,
    visit: &Visit,
    trouble: Option<&str>,
    reply: oneshot::Sender<Visiting>,
) -> ChoiceDialog<Visiting> {
    let mut head = page(server, visit);
    if let Some(trouble) = trouble {
        head.text(Tone::Bad, trouble);
    }
    let choice = Choice {
        title: format!("{server} asks"),
        head,
        body: address(visit),
        answers: vec![
            ("Open it in the browser", None, Visiting::Open),
            ("I go there myself", None, Visiting::Myself),
            ("No", None, Visiting::No),
        ],
        at: 2,
        escape: Visiting::No,
        urgency: Urgency::Asks,
        keys: vec![("←→", "choose"), ("Enter", "answer"), ("Esc", "no")],
    };
    ChoiceDialog::new(choice, reply)
}

/// Waits with somebody who is there.
pub fn wait(server: &str, visit: &Visit, reply: oneshot::Sender<Waited>) -> ChoiceDialog<Waited> {
    let mut head = Paper::default();
    let host = visit.url.host_str().unwrap_or_default();
    head.row(
        2,
        vec![
            (Tone::Text, "Waiting until it is done at ".to_owned()),
            (Tone::Strong, host.to_owned()),
        ],
    );
    let choice = Choice {
        title: format!("{server} waits for you"),
        head,
        body: address(visit),
        answers: vec![
            ("Try again now (r)", Some('r'), Waited::Enough),
            ("Give up", None, Waited::GivenUp),
        ],
        at: 0,
        escape: Waited::GivenUp,
        urgency: Urgency::Waits,
        keys: vec![("r", "try again now"), ("Esc", "give up")],
    };
    ChoiceDialog::new(choice, reply)
}
