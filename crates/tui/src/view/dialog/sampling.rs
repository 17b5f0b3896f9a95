//! The dialog of a sampling request: shows every message that the server would send to the user's model.

use switchboard::elicitation::{DENIED_BY_USER, ElicitResult, SamplingRequest};
use tokio::sync::oneshot;

use crate::text::rich_text::RichText;
use crate::theme::Tone;
use crate::view::dialog::choice::{ChoiceDialog, ChoiceOptions};
use crate::view::overlay::Urgency;

/// Asks whether a server may use the model.
pub fn sampling_dialog(
    server: &str,
    request: &SamplingRequest,
    reply: oneshot::Sender<ElicitResult>,
) -> ChoiceDialog<ElicitResult> {
    let mut head = RichText::default();
    let limit = match request.max_tokens {
        Some(tokens) => format!(", for an answer of at most {tokens} tokens"),
        None => String::new(),
    };
    head.push_text(Tone::Text, &format!("It asks to send this to your model{limit}:"));
    let mut body = RichText::default();
    let system = request.system_prompt.iter().map(|it| ("system", it.as_str()));
    let messages = request.messages.iter().map(|(role, text)| (role.as_str(), text.as_str()));
    for (role, text) in system.chain(messages) {
        body.push_line(2, vec![(Tone::Accent, format!("{role}:"))]);
        body.push_indented(2, Tone::Text, text);
    }
    let no = ElicitResult::Decline(DENIED_BY_USER.to_owned());
    let choice = ChoiceOptions {
        title: format!("{server} wants to use your model"),
        head,
        body,
        answers: vec![
            ("Yes, once", None, ElicitResult::Accept(serde_json::Map::new())),
            ("No", None, no.clone()),
        ],
        selected: 1,
        escape: no,
        urgency: Urgency::NeedsAnswer,
        keys: vec![("←→", "choose"), ("Enter", "answer"), ("↑↓", "scroll"), ("Esc", "no")],
    };
    ChoiceDialog::new(choice, reply)
}
