//! `swb subscribe`: stays, and says whenever a resource of a server changes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::ask::Question;
use switchboard::config::shown::printable;
use switchboard::connection::Status;
use switchboard::connection::state::Persistence;
use switchboard::engine::Host;
use switchboard::logbook::stamp;
use switchboard::subscription::{News, SubscribeError, Subscription};
use switchboard::wire::message::Payload;
use switchboard::yielded::keep::Keep;
use switchboard::yielded::{self, Limits};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::{call, ping, prompt, status};
use crate::exit::Exit;
use crate::live;
use crate::outcome::{Done, Failure};
use crate::report::{self, Reader};
use crate::session::Session;
use crate::style::{Meaning, paint};

/// How long a server may take to be read from.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much news may wait to be shown. What finds no room is told together, later.
const WAITING: usize = 16;

/// Arguments of `swb subscribe`.
#[derive(Debug, Args)]
pub struct Subscribe {
    /// The server's name
    pub server: String,
    /// The resources
    #[arg(required = true, value_name = "URI")]
    pub uris: Vec<String>,
    /// End after the first change
    #[arg(long, conflicts_with = "count")]
    pub once: bool,
    /// End after so many changes
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Also show what the resource holds, at each change
    #[arg(long)]
    pub read: bool,
}

/// Runs the command.
pub fn run(arguments: &Subscribe, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    status::ready(session, &configuration, &arguments.server)?;
    let limits = Limits { tokens: live::tokens(session)?, ..Limits::default() };
    let desk = Desk { session, arguments, limits };
    live::attended(session, Persistence::Patient, async |host, interrupts| {
        let view = tokio::select! {
            view = status::connected_view(session, host, &configuration, &arguments.server) => view,
            () = interrupts.next() => return Ok(interrupted()),
        };
        if view.status != Status::Connected {
            return Err(ping::not_connected(&view));
        }
        let mut watched = Watched::begin(host, arguments).await?;
        let outcome = tokio::select! {
            outcome = desk.tell(host, &mut watched) => outcome,
            failure = lost(host, &arguments.server) => Err(failure),
            () = interrupts.next() => Ok(interrupted()),
        };
        watched.end().await;
        outcome
    })
}

fn interrupted() -> Done {
    Done { exit: Some(Exit::Interrupted), ..Done::default() }
}

/// Comes back when the server cannot be had any more.
async fn lost(host: &Host, server: &str) -> Failure {
    let mut watch = host.watch();
    let is_lost = |status: &Status| matches!(status, Status::Failed(_) | Status::NeedsAuth(_));
    let snapshot = watch
        .wait_for(|it| it.servers.get(server).is_some_and(|view| is_lost(&view.status)))
        .await
        .map(|snapshot| snapshot.servers.get(server).cloned());
    match snapshot {
        Ok(Some(view)) => ping::not_connected(&view),
        Ok(None) | Err(_) => Failure::new(Exit::Connection, "the server is gone"),
    }
}

/// The subscriptions, a task each.
struct Watched {
    tasks: JoinSet<()>,
    news: mpsc::Receiver<(Arc<str>, News)>,
    over: watch::Sender<()>,
}

impl Watched {
    async fn begin(host: &Host, arguments: &Subscribe) -> Result<Watched, Failure> {
        let (to_us, news) = mpsc::channel(WAITING);
        let (over, is_over) = watch::channel(());
        let mut tasks = JoinSet::new();
        for uri in &arguments.uris {
            let subscription = host.subscribe(&arguments.server, uri).await;
            let subscription = subscription.map_err(|error| refusal(&error))?;
            tasks.spawn(follow(subscription, to_us.clone(), is_over.clone()));
        }
        Ok(Watched { tasks, news, over })
    }

    async fn end(mut self) {
        drop((self.over, self.news));
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn follow(
    mut subscription: Subscription,
    to_us: mpsc::Sender<(Arc<str>, News)>,
    mut is_over: watch::Receiver<()>,
) {
    let uri: Arc<str> = subscription.uri().into();
    loop {
        tokio::select! {
            news = subscription.next() => {
                let Some(news) = news else { break };
                if to_us.send((uri.clone(), news)).await.is_err() {
                    break;
                }
            }
            _ = is_over.changed() => break,
        }
    }
    subscription.end().await;
}

fn refusal(error: &SubscribeError) -> Failure {
    match error {
        SubscribeError::NotConnected(view) => ping::not_connected(view),
        SubscribeError::Unable(_) => Failure::new(Exit::NotFound, &error.to_string()),
        SubscribeError::NoServer(_) | SubscribeError::TooMany(_) => {
            Failure::new(Exit::Failure, &error.to_string())
        }
    }
}

/// What telling depends on.
struct Desk<'a> {
    session: &'a Session,
    arguments: &'a Subscribe,
    limits: Limits,
}

impl Desk<'_> {
    async fn tell(&self, host: &Host, watched: &mut Watched) -> Result<Done, Failure> {
        let mut left = match self.arguments.once {
            true => Some(1),
            false => self.arguments.count,
        };
        while let Some((uri, news)) = watched.news.recv().await {
            let text = match &news {
                News::Refused(why) => return Err(self.refused(&uri, why)),
                News::Subscribed => self.aside("subscribed", "subscribed to", &uri),
                News::Again => {
                    self.aside("resubscribed", "connected and subscribed again to", &uri)
                }
                News::Updated { uri: changed } => self.updated(host, &uri, changed).await?,
            };
            if report::say(&text) == Reader::Gone {
                break;
            }
            if matches!(news, News::Updated { .. }) && left.is_some() {
                left = left.map(|count| count - 1);
                if left == Some(0) {
                    break;
                }
            }
        }
        Ok(Done::default())
    }

    fn refused(&self, uri: &str, why: &str) -> Failure {
        let server = &self.arguments.server;
        let message = format!("`{server}` does not tell of changes to `{uri}`");
        Failure { causes: vec![printable(why)], ..Failure::new(Exit::Connection, &message) }
    }

    /// What is no change: for people beside the output, for programs in it.
    fn aside(&self, event: &str, words: &str, uri: &str) -> String {
        if self.session.wants_json() {
            return super::json_line(&self.event(event, uri));
        }
        report::aside(&format!(
            "{}\n",
            paint(Meaning::Faint, format!("{words} {}", printable(uri)))
        ));
        String::new()
    }

    fn event(&self, event: &str, uri: &str) -> Json {
        let server = &self.arguments.server;
        json!({"event": event, "server": server, "uri": uri, "time": stamp(SystemTime::now())})
    }

    async fn updated(&self, host: &Host, uri: &str, changed: &str) -> Result<String, Failure> {
        let mut event = self.event("updated", uri);
        if changed != uri {
            event["changed"] = changed.into();
        }
        let mut text = format!("updated {}\n", printable(changed));
        if self.arguments.read {
            let params = json!({"uri": changed}).to_string();
            let mut question = Question::harmless("resources/read", PATIENCE);
            question.params = Some(Payload::from_json(params.into()));
            let server = &self.arguments.server;
            let answer = host.ask(server, question).await.map_err(|it| prompt::failure(&it))?;
            let keep = Keep::below(&self.session.machine.places.data);
            let shown = yielded::of_read(&answer, server, &self.limits, &keep);
            event["result"] = call::as_json(&shown);
            text.push_str(&call::show(self.session, &shown).text);
        }
        Ok(if self.session.wants_json() { super::json_line(&event) } else { text })
    }
}
