//! `swb subscribe`: prints changes of resources as they happen.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::connection::{RetryPolicy, Status};
use switchboard::request::ServerRequest;
use switchboard::tool_result::{OutputLimits, SpillStore};
use switchboard::wire::jsonrpc::message::Payload;
use switchboard::{Host, ResourceEvent, SubscribeError, Subscription, tool_result, utc_timestamp};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::json::json_line;
use crate::output::report;
use crate::output::report::StdoutState;
use crate::output::style::{TextStyle, paint};
use crate::output::tool_output;
use crate::runtime::host;
use crate::runtime::servers;
use crate::runtime::variables;

/// The timeout of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How many events are queued. Later events of a resource are merged.
const QUEUE_SIZE: usize = 16;

/// Arguments of `swb subscribe`.
#[derive(Debug, Args)]
pub struct SubscribeArgs {
    /// The server's name
    pub server: String,
    /// The URIs of the resources
    #[arg(required = true, value_name = "URI")]
    pub uris: Vec<String>,
    /// Exit after the first change
    #[arg(long, conflicts_with = "count")]
    pub once: bool,
    /// Exit after this many changes
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Also print the resource's content at each change
    #[arg(long)]
    pub read: bool,
}

/// Runs the command.
pub fn run(arguments: &SubscribeArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    servers::startable_server(invocation, &configuration, &arguments.server)?;
    let limits = OutputLimits {
        tokens: variables::max_output_tokens(invocation)?,
        ..OutputLimits::default()
    };
    let context = ChangePrinter { invocation, arguments, limits };
    host::with_host_and_interrupts(
        invocation,
        RetryPolicy::RetryWithBackoff,
        async |host, interrupts| {
            let view = tokio::select! {
                view = servers::connect_one(invocation, host, &configuration, &arguments.server) => view,
                () = interrupts.next() => return Ok(interrupted()),
            };
            if view.status != Status::Connected {
                return Err(connection_text::not_connected(&view));
            }
            let mut watched = Subscriptions::subscribe(host, arguments).await?;
            let outcome = tokio::select! {
                outcome = context.print_changes(host, &mut watched) => outcome,
                failure = wait_until_lost(host, &arguments.server) => Err(failure),
                () = interrupts.next() => Ok(interrupted()),
            };
            watched.end().await;
            outcome
        },
    )
}

fn interrupted() -> CommandOutput {
    CommandOutput { exit: Some(Exit::Interrupted), ..CommandOutput::default() }
}

/// Waits until the server's connection fails for good.
async fn wait_until_lost(host: &Host, server: &str) -> Failure {
    let mut watch = host.watch();
    let is_lost = |status: &Status| {
        matches!(status, Status::Failed(_) | Status::NeedsAuth(_) | Status::SessionRefused(_))
    };
    let snapshot = watch
        .wait_for(|it| it.servers.get(server).is_some_and(|view| is_lost(&view.status)))
        .await
        .map(|snapshot| snapshot.servers.get(server).cloned());
    match snapshot {
        Ok(Some(view)) => connection_text::not_connected(&view),
        Ok(None) | Err(_) => Failure::new(Exit::Connection, "the server is no longer connected"),
    }
}

/// The subscriptions, one task each.
struct Subscriptions {
    tasks: JoinSet<()>,
    events: mpsc::Receiver<(Arc<str>, ResourceEvent)>,
    stop: watch::Sender<()>,
}

impl Subscriptions {
    async fn subscribe(host: &Host, arguments: &SubscribeArgs) -> Result<Subscriptions, Failure> {
        let (sender, events) = mpsc::channel(QUEUE_SIZE);
        let (stop, stopped) = watch::channel(());
        let mut tasks = JoinSet::new();
        for uri in &arguments.uris {
            let subscription = host.subscribe(&arguments.server, uri).await;
            let subscription = subscription.map_err(|error| subscribe_failure(&error))?;
            tasks.spawn(follow(subscription, sender.clone(), stopped.clone()));
        }
        Ok(Subscriptions { tasks, events, stop })
    }

    async fn end(mut self) {
        drop((self.stop, self.events));
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn follow(
    mut subscription: Subscription,
    sender: mpsc::Sender<(Arc<str>, ResourceEvent)>,
    mut stopped: watch::Receiver<()>,
) {
    let uri: Arc<str> = subscription.uri().into();
    loop {
        tokio::select! {
            event = subscription.next() => {
                let Some(event) = event else { break };
                if sender.send((uri.clone(), event)).await.is_err() {
                    break;
                }
            }
            _ = stopped.changed() => break,
        }
    }
    subscription.unsubscribe().await;
}

fn subscribe_failure(error: &SubscribeError) -> Failure {
    match error {
        SubscribeError::NotConnected(view) => connection_text::not_connected(view),
        SubscribeError::Unsupported(_) => Failure::new(Exit::NotFound, &error.to_string()),
        SubscribeError::UnknownServer(_) | SubscribeError::TooMany(_) => {
            Failure::new(Exit::Failure, &error.to_string())
        }
    }
}

/// Prints events.
struct ChangePrinter<'a> {
    invocation: &'a Invocation,
    arguments: &'a SubscribeArgs,
    limits: OutputLimits,
}

impl ChangePrinter<'_> {
    async fn print_changes(
        &self,
        host: &Host,
        watched: &mut Subscriptions,
    ) -> Result<CommandOutput, Failure> {
        let mut left = match self.arguments.once {
            true => Some(1),
            false => self.arguments.count,
        };
        while let Some((uri, event)) = watched.events.recv().await {
            let text = match &event {
                ResourceEvent::Refused(why) => return Err(self.refusal_failure(&uri, why)),
                ResourceEvent::Subscribed => self.print_event("subscribed", "subscribed to", &uri),
                ResourceEvent::Resubscribed => {
                    self.print_event("resubscribed", "reconnected and resubscribed to", &uri)
                }
                ResourceEvent::Updated { uri: changed } => {
                    self.update_text(host, &uri, changed).await?
                }
            };
            if report::print_stdout(&text) == StdoutState::Closed {
                break;
            }
            if matches!(event, ResourceEvent::Updated { .. }) && left.is_some() {
                left = left.map(|count| count - 1);
                if left == Some(0) {
                    break;
                }
            }
        }
        Ok(CommandOutput::default())
    }

    fn refusal_failure(&self, uri: &str, why: &str) -> Failure {
        let server = &self.arguments.server;
        let message = format!("`{server}` does not notify of changes to `{uri}`");
        Failure { causes: vec![printable(why)], ..Failure::new(Exit::Connection, &message) }
    }

    /// Prints an event that is not a change: to standard error, or as JSON to standard output.
    fn print_event(&self, event: &str, words: &str, uri: &str) -> String {
        if self.invocation.wants_json() {
            return json_line(&self.event_json(event, uri));
        }
        report::print_stderr(&format!(
            "{}\n",
            paint(TextStyle::Dim, format!("{words} {}", printable(uri)))
        ));
        String::new()
    }

    fn event_json(&self, event: &str, uri: &str) -> Json {
        let server = &self.arguments.server;
        json!({"event": event, "server": server, "uri": uri, "time": utc_timestamp(SystemTime::now())})
    }

    async fn update_text(&self, host: &Host, uri: &str, changed: &str) -> Result<String, Failure> {
        let mut event = self.event_json("updated", uri);
        if changed != uri {
            event["changed"] = changed.into();
        }
        let mut text = format!("updated {}\n", printable(changed));
        if self.arguments.read {
            let params = json!({"uri": changed}).to_string();
            let mut request = ServerRequest::idempotent("resources/read", READ_TIMEOUT);
            request.params = Some(Payload::from_json(params.into()));
            let server = &self.arguments.server;
            let answer = host
                .request(server, request)
                .await
                .map_err(|it| tool_output::request_failure(&it))?;
            let spill = SpillStore::in_data_folder(&self.invocation.env.paths.data);
            let shown = tool_result::from_resource_read(&answer, server, &self.limits, &spill);
            event["result"] = tool_output::as_json(&shown);
            text.push_str(&tool_output::text(&shown).text);
        }
        Ok(if self.invocation.wants_json() { json_line(&event) } else { text })
    }
}
