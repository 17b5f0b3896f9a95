//! A call with a timeout and with progress, and the log events of the library on standard error. `Host::call` is the
//! short form with the defaults.

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::{Host, InProcessServer, Paths};
use switchboard_builtin::demo;
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Prints the events of the library, one line each. Any `tracing` subscriber will do.
struct PrintEvents;

impl<S: Subscriber> Layer<S> for PrintEvents {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("switchboard") {
            let mut line = format!("{} {}", event.metadata().level(), event.metadata().target());
            event.record(&mut EventText(&mut line));
            eprintln!("{line}");
        }
    }
}

struct EventText<'a>(&'a mut String);

impl Visit for EventText<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::registry().with(PrintEvents).init();
    let folder = tempfile::tempdir()?;
    let server = demo::server(folder.path().join("notes.json"));
    let host = Host::builder(Paths::in_dir(folder.path()))
        .server("demo", InProcessServer::new(move |transport| server.clone().serve(transport)))
        .trust("demo")
        .start()
        .await?;
    let (progress, mut notifications) = mpsc::channel(16);
    let output = host
        .tool_call("mcp__demo__count_slowly", json!({"steps": 3, "milliseconds": 1}))
        .caller("call_options")
        .timeout(Duration::from_secs(10))
        .progress(progress)
        .send()
        .await?;
    while let Some(notification) = notifications.recv().await {
        println!("progress: {}", notification.0.decode::<Json>()?["progress"]);
    }
    println!("{}", output.text());
    host.shutdown().await;
    Ok(())
}
