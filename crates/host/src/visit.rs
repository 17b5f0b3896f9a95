//! Servers that want somebody to visit a page before they do what they are asked: has it visited, waits until the
//! server says that it is done, and asks again.

use std::time::Duration;

use serde_json::Value as Json;
use switchboard_wire::message::{Payload, RemoteError};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use crate::ask::{AskError, Question};
use crate::engine::Host;
use crate::inquiry::{Inquiry, Reply, Subject, Unaskable, Visit, Waited};

/// What a server answers that wants a page visited first.
const VISIT_FIRST: i64 = -32042;
/// How often one question may send people somewhere.
const ROUNDS: usize = 3;
/// How many pages at once.
const PAGES: usize = 8;
/// How long a page may take before the question is asked again anyway.
const LONGEST_VISIT: Duration = Duration::from_secs(3600);

impl Host {
    /// Asks one server; what it wants visited first is visited, where somebody agrees.
    pub(crate) async fn put_after_visits(
        &self,
        server: &str,
        question: Question,
    ) -> Result<Payload, AskError> {
        for _ in 0..ROUNDS {
            // Heard from before the question is asked: a server may be done before we have begun to wait.
            let mut done = self.settings().visited.subscribe();
            let wanted = match self.put(server, question.clone()).await {
                Err(AskError::Refused(error)) if error.code == VISIT_FIRST => error,
                outcome => return outcome,
            };
            self.visit(server, &wanted, &mut done).await.map_err(|reason| {
                let server = server.to_owned();
                AskError::NotVisited { server, reason }
            })?;
        }
        self.put(server, question).await
    }

    /// Has every page visited. The error is why one was not.
    async fn visit(
        &self,
        server: &str,
        wanted: &RemoteError,
        done: &mut Receiver<(String, String)>,
    ) -> Result<(), String> {
        let visits = visits(wanted).map_err(|error| error.to_string())?;
        let asker = self.settings().counsel.asker();
        for visit in visits {
            let id = visit.id.clone();
            let inquiry = Inquiry { server: server.to_owned(), subject: Subject::Visit(visit) };
            match asker.ask(&inquiry).await {
                Reply::Accept(_) => {}
                Reply::Decline(reason) | Reply::Cancel(reason) => return Err(reason),
            }
            let over = async {
                tokio::select! {
                    () = heard(done, server, id.as_deref()) => Waited::Enough,
                    waited = asker.wait(&inquiry) => waited,
                }
            };
            match timeout(LONGEST_VISIT, over).await {
                Ok(Waited::Enough) | Err(_) => {}
                Ok(Waited::GivenUp) => return Err("somebody gave up waiting".to_owned()),
            }
        }
        Ok(())
    }
}

/// Comes back when the server has said that it is done.
async fn heard(done: &mut Receiver<(String, String)>, server: &str, id: Option<&str>) {
    let Some(id) = id else { return std::future::pending().await };
    loop {
        match done.recv().await {
            Ok((from, what)) if from == server && what == id => return,
            Ok(_) => {}
            // What was missed may have been it.
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// The pages that an error names.
fn visits(error: &RemoteError) -> Result<Vec<Visit>, Unaskable> {
    let data: Json = error.data.as_ref().and_then(|it| it.decode().ok()).unwrap_or_default();
    let pages = data["elicitations"].as_array().cloned().unwrap_or_default();
    if pages.is_empty() {
        return Err(Unaskable::Address);
    }
    pages.iter().take(PAGES).map(Visit::read).collect()
}
