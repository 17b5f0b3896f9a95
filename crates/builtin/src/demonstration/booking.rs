//! Tools that cannot go on without a person.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::content::Output;
use crate::context::Context;
use crate::question::{Answer, Field, Question};
use crate::refusal::Stop;
use crate::tooling::Tool;

/// Nothing to say.
#[derive(Deserialize)]
struct Nothing {}

fn report() -> Json {
    json!({
        "type": "object",
        "properties": {"action": {"enum": ["accept", "decline", "cancel"]}, "given": {"type": "object"}},
        "required": ["action"],
    })
}

pub(super) fn book_table() -> Tool {
    Tool::new(
        "book_table",
        "Asks what it must know to book a table, and says what it was told.",
        book,
    )
    .takes(json!({}), &[])
    .gives(report())
    .adds()
}

async fn book(context: Context, _: Nothing) -> Result<Output, Stop> {
    let question = Question::form(
        "A table at the Switchboard Inn?",
        vec![
            Field::text("name", "Your name"),
            Field::date("day", "The day"),
            Field::whole("guests", "How many guests", 1..=12),
            Field::choice("seating", "Where to sit", &["inside", "terrace", "bar"])
                .usually("inside"),
            Field::flag("newsletter", "Send the newsletter").usually(false),
        ],
    );
    Ok(match context.ask(&question).await? {
        Answer::Accepted(given) => {
            let word = |name: &str| match given.get(name) {
                Some(Json::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => "anything".to_owned(),
            };
            let text = format!(
                "Booked (not really): {} on {}, guests: {}, seating: {}.",
                word("name"),
                word("day"),
                word("guests"),
                word("seating"),
            );
            Output::value(json!({"action": "accept", "given": given}), text)
        }
        Answer::Declined => {
            Output::value(json!({"action": "decline"}), "No table was booked: you declined.")
        }
        Answer::Cancelled => {
            let text = "No table was booked: you closed the question.";
            Output::value(json!({"action": "cancel"}), text)
        }
    })
}

pub(super) fn sign_guestbook() -> Tool {
    Tool::new("sign_guestbook", "Asks you to visit a page, and says whether you would.", sign)
        .takes(json!({}), &[])
        .gives(report())
        .adds()
        .reaches_out()
}

async fn sign(context: Context, _: Nothing) -> Result<Output, Stop> {
    let question = Question::page(
        "The guestbook is a page of its own.",
        "https://example.com/switchboard/guestbook",
        "guestbook-1",
    );
    let (action, text) = match context.ask(&question).await? {
        Answer::Accepted(_) => ("accept", "You went to the guestbook."),
        Answer::Declined => ("decline", "The guestbook stays empty: you declined."),
        Answer::Cancelled => ("cancel", "The guestbook stays empty: you closed the question."),
    };
    Ok(Output::value(json!({"action": action}), text))
}
