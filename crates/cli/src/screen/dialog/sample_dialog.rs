//! A server wants to ask the model: everything that it would say to it is shown first.

use switchboard::inquiry::{Reply, Sample};
use tokio::sync::oneshot;

use crate::person::SAID_NO;
use crate::screen::dialog::Urgency;
use crate::screen::dialog::choice_dialog::{Choice, ChoiceDialog};
use crate::screen::dialog::paper::Paper;
use crate::screen::look::Tone;

/// Asks whether a server may use the model.
pub fn sample(server: &str, sample: &Sample, reply: oneshot::Sender<Reply>) -> ChoiceDialog<Reply> {
    let mut head = Paper::default();
    let longest = match sample.longest {
        Some(tokens) => format!(", for an answer of at most {tokens} tokens"),
        None => String::new(),
    };
    head.text(Tone::Text, &format!("It wants to ask your model this{longest}:"));
    let mut body = Paper::default();
    let system = sample.system.iter().map(|it| ("system", it.as_str()));
    let messages = sample.messages.iter().map(|(role, said)| (role.as_str(), said.as_str()));
    for (role, said) in system.chain(messages) {
        body.row(2, vec![(Tone::Accent, format!("{role}:"))]);
        body.hung(2, Tone::Text, said);
    }
    let no = Reply::Decline(SAID_NO.to_owned());
    let choice = Choice {
        title: format!("{server} wants to use your model"),
        head,
        body,
        answers: vec![
            ("Yes, once", None, Reply::Accept(serde_json::Map::new())),
            ("No", None, no.clone()),
        ],
        at: 1,
        escape: no,
        urgency: Urgency::Asks,
        keys: vec![("←→", "choose"), ("Enter", "answer"), ("↑↓", "scroll"), ("Esc", "no")],
    };
    ChoiceDialog::new(choice, reply)
}
