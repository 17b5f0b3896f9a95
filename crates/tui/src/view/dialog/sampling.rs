//! A server wants to ask the model: everything that it would say to it is shown first.

use switchboard::elicitation::elicitor::{ElicitResult, SamplingRequest};
use tokio::sync::oneshot;

use crate::text::rich_text::RichText;
use crate::theme::Tone;
use crate::view::dialog::DENIED_BY_USER;
use crate::view::dialog::choice::{ChoiceDialog, ChoiceOptions};
use crate::view::overlay::Urgency;

/// Asks whether a server may use the model.
pub fn sampling_dialog(
    server: &str,
    sample: &SamplingRequest,
    reply: oneshot::Sender<ElicitResult>,
) -> ChoiceDialog<ElicitResult> {
    let mut head = RichText::default();
    let longest = match sample.max_tokens {
        Some(tokens) => format!(", for an answer of at most {tokens} tokens"),
        None => String::new(),
    };
    head.push_text(Tone::Text, &format!("It wants to ask your model this{longest}:"));
    let mut body = RichText::default();
    let system = sample.system_prompt.iter().map(|it| ("system", it.as_str()));
    let messages = sample.messages.iter().map(|(role, said)| (role.as_str(), said.as_str()));
    for (role, said) in system.chain(messages) {
        body.push_line(2, vec![(Tone::Accent, format!("{role}:"))]);
        body.push_indented(2, Tone::Text, said);
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
