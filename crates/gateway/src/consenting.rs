//! Leave for a call, asked of the person behind the client where the client can ask them, and otherwise of whoever
//! answers here.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard::calling::{Consent, Consented, Consenting, Holds, PermissionQuestion};
use switchboard::pin::Change;
use switchboard_wire::client::Respond;
use switchboard_wire::message::Payload;

use crate::attendant::Attendant;

/// The most of the arguments that a person is shown, in characters.
const SHOWN: usize = 2000;

/// Asks the client first.
pub(crate) struct ClientConsent<'a> {
    pub(crate) attendant: &'a Arc<Attendant>,
    pub(crate) otherwise: &'a dyn Consent,
}

impl Consent for ClientConsent<'_> {
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        if self.attendant.has_leave() {
            let who = format!("{} agreed to this call", self.attendant.guest.principal);
            return Box::pin(async { Consented::Yes { who, holds: Holds::Once } });
        }
        match self.attendant.guest.can().forms {
            true => Box::pin(self.asked(ask)),
            false => self.otherwise.consent(ask),
        }
    }

    fn note(&self, text: &str) {
        self.otherwise.note(text);
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    action: String,
    #[serde(default)]
    content: Json,
}

impl ClientConsent<'_> {
    async fn asked(&self, ask: &PermissionQuestion<'_>) -> Consented {
        let question = Payload::from_json(question(ask).to_string().into());
        let answer = self.attendant.respond("elicitation/create", Some(question)).await;
        let answer = answer.ok().and_then(|it| it.decode::<Answer>().ok());
        let who = self.attendant.guest.principal.to_string();
        let no = |why: &str| Consented::No(format!("{}, and {who} {why}", ask.because));
        let Some(answer) = answer else { return no("could not be asked") };
        if answer.action != "accept" {
            return no("did not agree");
        }
        let holds = match answer.content["decision"].as_str() {
            Some("once") => Holds::Once,
            Some("session") => match ask.suggestions.first() {
                Some(suggestion) => Holds::Session(suggestion.rule.clone()),
                None => Holds::Once,
            },
            Some(_) | None => return no("said no"),
        };
        self.attendant.give_leave();
        Consented::Yes { who, holds }
    }
}

fn question(ask: &PermissionQuestion<'_>) -> Json {
    let tool = ask.tool;
    let arguments = serde_json::to_string_pretty(ask.arguments).unwrap_or_default();
    let mut shown: String = arguments.chars().take(SHOWN).collect();
    if shown.len() < arguments.len() {
        shown.push('…');
    }
    let mut message =
        format!("May `{}` of `{}` run? ({})\n{shown}", tool.name, tool.server, ask.because);
    if let Some(alteration) = &ask.alteration {
        message.push_str("\nIts definition changed since it was approved:");
        for (change, line) in &alteration.lines {
            let mark = match change {
                Change::Added => '+',
                Change::Removed => '-',
                Change::Kept => ' ',
            };
            message.push_str(&format!("\n{mark} {line}"));
        }
    }
    let mut choices = vec![("once", "Yes, this once".to_owned())];
    if let Some(suggestion) = ask.suggestions.first() {
        choices.push(("session", format!("Yes, and from now on: {}", suggestion.rule)));
    }
    choices.push(("no", "No".to_owned()));
    let (words, names): (Vec<_>, Vec<_>) = choices.into_iter().unzip();
    json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "required": ["decision"], "properties": {
            "decision": {"type": "string", "title": "Decision", "enum": words, "enumNames": names},
        }},
    })
}
