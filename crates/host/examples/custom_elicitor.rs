//! A host that answers elicitations itself and decides about every call: an `Elicitor` and a `PermissionPrompt` of the
//! program instead of a user.

use std::error::Error;

use serde_json::{Map, json};
use switchboard::{
    DecisionFuture, ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor, GrantScope,
    Host, InProcessServer, Paths, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use switchboard_builtin::demo;

/// Fills in forms, and declines everything else.
struct BookingPolicy;

impl Elicitor for BookingPolicy {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        Box::pin(async move {
            match &elicitation.kind {
                ElicitationKind::Form(form) => {
                    println!("{} asks: {}", elicitation.server, form.message);
                    let known = json!({"name": "Ada", "day": "2027-01-31", "guests": 4});
                    let known = known.as_object().cloned().unwrap_or_default();
                    let has_field = |name: &String| form.fields.iter().any(|it| it.name == *name);
                    let answers: Map<_, _> =
                        known.into_iter().filter(|(name, _)| has_field(name)).collect();
                    ElicitResult::Accept(answers)
                }
                ElicitationKind::Url(_) | ElicitationKind::Sampling(_) => {
                    ElicitResult::Decline("not today".to_owned())
                }
            }
        })
    }
}

/// Permits `book_table` only.
impl PermissionPrompt for BookingPolicy {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async move {
            match request.tool.name == "book_table" {
                true => PermissionDecision::Allow {
                    decided_by: "the booking policy".to_owned(),
                    scope: GrantScope::Once,
                },
                false => PermissionDecision::Deny("only tables are booked here".to_owned()),
            }
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let server = demo::server(folder.path().join("notes.json"));
    let host = Host::builder(Paths::in_dir(folder.path()))
        .server("inn", InProcessServer::new(move |transport| server.clone().serve(transport)))
        .elicitor(BookingPolicy)
        .permission(BookingPolicy)
        .start()
        .await?;
    let booked = host.call("mcp__inn__book_table", json!({})).await?;
    println!("{}", booked.text());
    match host.call("mcp__inn__add_note", json!({"text": "x"})).await {
        Ok(_) => println!("it was allowed"),
        Err(error) => println!("{error}"),
    }
    host.shutdown().await;
    Ok(())
}
