//! A server wants somebody to visit a page: where it leads is said before anything is opened. Afterwards somebody may
//! wait until the server says that it is done. Opening it is left to `questions`.

use switchboard::elicitation::elicitor::{UrlElicitation, WaitOutcome};
use tokio::sync::oneshot;

use crate::text::rich_text::RichText;
use crate::theme::Tone;
use crate::view::dialog::choice::{ChoiceDialog, ChoiceOptions};
use crate::view::overlay::Urgency;

/// What somebody says to a page that is to be visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlChoice {
    /// It is to be opened.
    Open,
    /// They go there themselves.
    OpenManually,
    /// No.
    Decline,
}

fn heading(server: &str, visit: &UrlElicitation) -> RichText {
    let mut content = RichText::default();
    let host = visit.url.host_str().unwrap_or_default();
    content.push_line(
        2,
        vec![
            (Tone::Text, format!("{server} wants you to visit ")),
            (Tone::Strong, host.to_owned()),
        ],
    );
    if visit.url.scheme() != "https" {
        content.push_text(Tone::Warning, "The way there is not encrypted.");
    }
    content
}

fn address(visit: &UrlElicitation) -> RichText {
    let mut content = RichText::default();
    if !visit.message.is_empty() {
        content.push_text(Tone::Text, &visit.message);
        content.push_blank();
    }
    content.push_text(Tone::Link, visit.url.as_str());
    content
}

/// Asks whether a page is to be visited. `open_error` is why it could not be opened a moment ago.
pub fn url_dialog(
    server: &str,
    visit: &UrlElicitation,
    open_error: Option<&str>,
    reply: oneshot::Sender<UrlChoice>,
) -> ChoiceDialog<UrlChoice> {
    let mut head = heading(server, visit);
    if let Some(open_error) = open_error {
        head.push_text(Tone::Error, open_error);
    }
    let choice = ChoiceOptions {
        title: format!("{server} asks"),
        head,
        body: address(visit),
        answers: vec![
            ("Open it in the browser", None, UrlChoice::Open),
            ("I go there myself", None, UrlChoice::OpenManually),
            ("No", None, UrlChoice::Decline),
        ],
        selected: 2,
        escape: UrlChoice::Decline,
        urgency: Urgency::NeedsAnswer,
        keys: vec![("←→", "choose"), ("Enter", "answer"), ("Esc", "no")],
    };
    ChoiceDialog::new(choice, reply)
}

/// Waits with somebody who is there.
pub fn url_wait_dialog(
    server: &str,
    visit: &UrlElicitation,
    reply: oneshot::Sender<WaitOutcome>,
) -> ChoiceDialog<WaitOutcome> {
    let mut head = RichText::default();
    let host = visit.url.host_str().unwrap_or_default();
    head.push_line(
        2,
        vec![
            (Tone::Text, "Waiting until it is done at ".to_owned()),
            (Tone::Strong, host.to_owned()),
        ],
    );
    let choice = ChoiceOptions {
        title: format!("{server} waits for you"),
        head,
        body: address(visit),
        answers: vec![
            ("Try again now (r)", Some('r'), WaitOutcome::Retry),
            ("Give up", None, WaitOutcome::GivenUp),
        ],
        selected: 0,
        escape: WaitOutcome::GivenUp,
        urgency: Urgency::Waiting,
        keys: vec![("r", "try again now"), ("Esc", "give up")],
    };
    ChoiceDialog::new(choice, reply)
}
