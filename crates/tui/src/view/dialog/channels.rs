//! The dialog before servers that no administrator allows may send messages into the conversation.

use tokio::sync::oneshot;

use crate::text::rich_text::RichText;
use crate::theme::Tone;
use crate::view::dialog::choice::{ChoiceDialog, ChoiceOptions};
use crate::view::overlay::Urgency;

/// The user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelsChoice {
    /// They may, in this session.
    Allow,
    /// They may not.
    Refuse,
}

/// Asks whether these channels may be used although they are on no list.
pub fn channels_dialog(
    channels: &[String],
    reply: oneshot::Sender<ChannelsChoice>,
) -> ChoiceDialog<ChannelsChoice> {
    let mut head = RichText::default();
    head.push_text(Tone::Strong, "Let these servers send messages into this conversation?");
    head.push_text(Tone::Warning, "No administrator has allowed them as channels.");
    let mut body = RichText::default();
    for channel in channels {
        body.push_text(Tone::Text, channel);
    }
    body.push_blank();
    body.push_text(
        Tone::Muted,
        "The model reads what anyone sends who can reach the channel, and may act on it with your tools. \
         Allow only servers that you develop yourself.",
    );
    let choice = ChoiceOptions {
        title: "Development channels".to_owned(),
        head,
        body,
        answers: vec![
            ("No", None, ChannelsChoice::Refuse),
            ("Allow for this session", None, ChannelsChoice::Allow),
        ],
        selected: 0,
        escape: ChannelsChoice::Refuse,
        urgency: Urgency::NeedsAnswer,
        keys: vec![("←→", "choose"), ("Enter", "answer"), ("Esc", "no")],
    };
    ChoiceDialog::new(choice, reply)
}
