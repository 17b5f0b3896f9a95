//! The dialogs of a URL elicitation: one shows where the URL leads before it is opened, one waits until the server reports
//! completion. Opening it is left to `elicitor`.

use switchboard::elicitation::{UrlElicitation, WaitOutcome};
use tokio::sync::oneshot;

use crate::text::rich_text::RichText;
use crate::theme::Tone;
use crate::view::dialog::choice::{ChoiceDialog, ChoiceOptions};
use crate::view::overlay::Urgency;

/// The user's answer to a URL elicitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlChoice {
    /// Open the URL.
    Open,
    /// The user opens it.
    OpenManually,
    /// Decline.
    Decline,
}

fn heading(server: &str, elicitation: &UrlElicitation) -> RichText {
    let mut content = RichText::default();
    let host = elicitation.url.host_str().unwrap_or_default();
    content.push_line(
        2,
        vec![(Tone::Text, format!("{server} asks you to open ")), (Tone::Strong, host.to_owned())],
    );
    if elicitation.url.scheme() != "https" {
        content.push_text(Tone::Warning, "The connection is not encrypted.");
    }
    content
}

fn address(elicitation: &UrlElicitation) -> RichText {
    let mut content = RichText::default();
    if !elicitation.message.is_empty() {
        content.push_text(Tone::Text, &elicitation.message);
        content.push_blank();
    }
    content.push_text(Tone::Link, elicitation.url.as_str());
    content
}

/// Asks whether to open a URL. `open_error` is the error of the last attempt.
pub fn url_dialog(
    server: &str,
    elicitation: &UrlElicitation,
    open_error: Option<&str>,
    reply: oneshot::Sender<UrlChoice>,
) -> ChoiceDialog<UrlChoice> {
    let mut head = heading(server, elicitation);
    if let Some(open_error) = open_error {
        head.push_text(Tone::Error, open_error);
    }
    let choice = ChoiceOptions {
        title: format!("{server} asks"),
        head,
        body: address(elicitation),
        answers: vec![
            ("Open it in the browser", None, UrlChoice::Open),
            ("I will open it myself", None, UrlChoice::OpenManually),
            ("No", None, UrlChoice::Decline),
        ],
        selected: 2,
        escape: UrlChoice::Decline,
        urgency: Urgency::NeedsAnswer,
        keys: vec![("←→", "choose"), ("Enter", "answer"), ("Esc", "no")],
    };
    ChoiceDialog::new(choice, reply)
}

/// Waits while the user is at the URL.
pub fn url_wait_dialog(
    server: &str,
    elicitation: &UrlElicitation,
    reply: oneshot::Sender<WaitOutcome>,
) -> ChoiceDialog<WaitOutcome> {
    let mut head = RichText::default();
    let host = elicitation.url.host_str().unwrap_or_default();
    head.push_line(
        2,
        vec![
            (Tone::Text, "Waiting for completion at ".to_owned()),
            (Tone::Strong, host.to_owned()),
        ],
    );
    let choice = ChoiceOptions {
        title: format!("{server} is waiting for you"),
        head,
        body: address(elicitation),
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
