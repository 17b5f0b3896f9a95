//! A host with its own `Elicitor` and permission prompt: it answers booking forms itself and allows only bookings.

use std::error::Error;
use std::sync::Arc;

use serde_json::{Map, json};
use switchboard::call::pipeline::{
    CallContext, DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt,
    PermissionRequest, ToolCall,
};
use switchboard::connection::in_process::InProcessServer;
use switchboard::connection::resolve::HostEnv;
use switchboard::elicitation::elicitor::{
    ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor,
};
use switchboard::host::{Host, HostOptions};
use switchboard::sources::loader;
use switchboard::sources::paths::Paths;
use switchboard_builtin::demo;

/// Fills in the fields it knows, and opens no URLs.
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

/// Allows bookings and denies everything else.
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
    let paths = Paths::in_dir(folder.path());
    let env = HostEnv { working_folder: folder.path().to_owned(), ..HostEnv::default() };
    let mut options = HostOptions::new(paths.clone(), env);
    options.elicitor = Arc::new(BookingPolicy);
    let server = demo::server(folder.path().join("notes.json"));
    let in_process = InProcessServer::new(move |link| server.clone().serve(link));
    options.in_process.insert("demo".to_owned(), in_process);
    let (host, task) = Host::start(options)?;
    let servers = r#"{"mcpServers": {"inn": {"type": "sdk", "name": "demo"}}}"#;
    host.apply(&loader::from_program("custom_elicitor", servers)).await;
    host.settled().await;

    let context = CallContext::new(&host, &paths)?.with_prompt(BookingPolicy);
    let booked = host.call(&context, ToolCall::new("mcp__inn__book_table", json!({}))).await?;
    println!("{}", booked.text());
    match host.call(&context, ToolCall::new("mcp__inn__add_note", json!({"text": "x"}))).await {
        Ok(_) => println!("it was allowed"),
        Err(error) => println!("{error}"),
    }
    host.shutdown().await;
    task.await?;
    Ok(())
}
