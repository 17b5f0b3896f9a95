//! A host that answers servers' questions itself: an `Ask` port of its own says who eats where, and its own word on
//! every call decides what runs.

use std::error::Error;
use std::sync::Arc;

use serde_json::{Map, json};
use switchboard::address::Around;
use switchboard::calling::{
    Consent, Consented, Consenting, Desk, Holds, PermissionQuestion, ToolCall,
};
use switchboard::engine::{Host, Options};
use switchboard::in_process::InProcess;
use switchboard::inquiry::{Ask, Asking, Inquiry, Reply, Subject};
use switchboard::load;
use switchboard::places::Places;
use switchboard_builtin::demonstration;

/// Fills in what it knows, and goes nowhere.
struct Secretary;

impl Ask for Secretary {
    fn ask<'a>(&'a self, inquiry: &'a Inquiry) -> Asking<'a> {
        Box::pin(async move {
            match &inquiry.subject {
                Subject::Form(form) => {
                    println!("{} asks: {}", inquiry.server, form.message);
                    let known = json!({"name": "Ada", "day": "2027-01-31", "guests": 4});
                    let known = known.as_object().cloned().unwrap_or_default();
                    let is_asked = |name: &String| form.fields.iter().any(|it| it.name == *name);
                    let answers: Map<_, _> =
                        known.into_iter().filter(|(name, _)| is_asked(name)).collect();
                    Reply::Accept(answers)
                }
                Subject::Visit(_) | Subject::Sample(_) => Reply::Decline("not today".to_owned()),
            }
        })
    }
}

/// Lets tables be booked, and nothing else.
impl Consent for Secretary {
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        Box::pin(async move {
            match ask.tool.name == "book_table" {
                true => Consented::Yes { who: "the secretary".to_owned(), holds: Holds::Once },
                false => Consented::No("only tables are booked here".to_owned()),
            }
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let places = Places::below(folder.path());
    let around = Around { working_folder: folder.path().to_owned(), ..Around::default() };
    let mut options = Options::new(places.clone(), around);
    options.asker = Arc::new(Secretary);
    let server = demonstration::server(folder.path().join("notes.json"));
    let served = InProcess::new(move |link| server.clone().serve(link));
    options.in_process.insert("demo".to_owned(), served);
    let (host, task) = Host::start(options)?;
    let servers = r#"{"mcpServers": {"inn": {"type": "sdk", "name": "demo"}}}"#;
    host.apply(&load::of_program("own_ask_port", servers)).await;
    host.settled().await;

    let desk = Desk::new(&host, &places)?.asking(Secretary);
    let booked = host.call(&desk, ToolCall::new("mcp__inn__book_table", json!({}))).await?;
    println!("{}", booked.text());
    match host.call(&desk, ToolCall::new("mcp__inn__add_note", json!({"text": "x"}))).await {
        Ok(_) => println!("it was allowed"),
        Err(error) => println!("{error}"),
    }
    host.stop().await;
    task.await?;
    Ok(())
}
