//! Tools that ask the user: `book_table` with a form, `sign_guestbook` with a URL.

use serde_json::{Value as Json, json};

use super::NoArguments;
use crate::kit::context::HandlerContext;
use crate::kit::elicitation::{Elicitation, ElicitationResult, FormField};
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;

fn output_schema() -> Json {
    json!({
        "type": "object",
        "properties": {"action": {"enum": ["accept", "decline", "cancel"]}, "given": {"type": "object"}},
        "required": ["action"],
    })
}

pub(crate) fn book_table() -> Tool {
    Tool::typed(
        "book_table",
        "Asks for the details of a reservation in a form, and returns them.",
        book,
    )
    .output_schema(output_schema())
    .non_destructive()
}

async fn book(context: HandlerContext, _: NoArguments) -> Result<ToolOutput, HandlerError> {
    let elicitation = Elicitation::form(
        "A table at the Switchboard Inn?",
        vec![
            FormField::text("name", "Your name"),
            FormField::date("day", "The day"),
            FormField::integer("guests", "How many guests", 1..=12),
            FormField::choice("seating", "Where to sit", &["inside", "terrace", "bar"])
                .with_default("inside"),
            FormField::boolean("newsletter", "Send the newsletter").with_default(false),
        ],
    );
    Ok(match context.elicit(&elicitation).await? {
        ElicitationResult::Accepted(content) => {
            let field = |name: &str| match content.get(name) {
                Some(Json::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => "anything".to_owned(),
            };
            let text = format!(
                "Booked (not really): {} on {}, guests: {}, seating: {}.",
                field("name"),
                field("day"),
                field("guests"),
                field("seating"),
            );
            ToolOutput::structured(json!({"action": "accept", "given": content}), text)
        }
        ElicitationResult::Declined => ToolOutput::structured(
            json!({"action": "decline"}),
            "No table was booked: you declined.",
        ),
        ElicitationResult::Cancelled => {
            let text = "No table was booked: you closed the question.";
            ToolOutput::structured(json!({"action": "cancel"}), text)
        }
    })
}

pub(crate) fn sign_guestbook() -> Tool {
    Tool::typed("sign_guestbook", "Asks you to open a page, and returns your decision.", sign)
        .output_schema(output_schema())
        .non_destructive()
        .open_world()
}

async fn sign(context: HandlerContext, _: NoArguments) -> Result<ToolOutput, HandlerError> {
    let elicitation = Elicitation::url(
        "The guestbook is a page of its own.",
        "https://example.com/switchboard/guestbook",
        "guestbook-1",
    );
    let (action, text) = match context.elicit(&elicitation).await? {
        ElicitationResult::Accepted(_) => ("accept", "You went to the guestbook."),
        ElicitationResult::Declined => ("decline", "The guestbook stays empty: you declined."),
        ElicitationResult::Cancelled => {
            ("cancel", "The guestbook stays empty: you closed the question.")
        }
    };
    Ok(ToolOutput::structured(json!({"action": action}), text))
}
