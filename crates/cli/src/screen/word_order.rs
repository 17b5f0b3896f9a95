//! Keeps the order of words in plain lines: a question is asked only when all that came before it has been said.
//! Whoever says things answers `Requests`; whoever asks goes through `InTurn`.

use std::sync::Arc;
use std::time::Duration;

use switchboard::calling::{Consent, Consenting, PermissionQuestion};
use switchboard::inquiry::{Ask, Asking, Inquiry, Waiting};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How many questions may wait to be asked.
const WAITING: usize = 16;
/// How long a question waits. Where nothing is under way nobody says that all has been said.
const PATIENCE: Duration = Duration::from_secs(1);

/// Those who wait until all has been said.
pub type Requests = mpsc::Receiver<oneshot::Sender<()>>;

/// Asks when all has been said.
#[derive(Debug, Clone)]
pub struct WordOrder {
    requests: mpsc::Sender<oneshot::Sender<()>>,
}

impl WordOrder {
    /// An order of words, and the end of whoever says them.
    pub fn new() -> (WordOrder, Requests) {
        let (requests, waiting) = mpsc::channel(WAITING);
        (WordOrder { requests }, waiting)
    }

    /// Somebody who asks in turn.
    pub fn keep<Who: ?Sized>(&self, who: Arc<Who>) -> InTurn<Who> {
        InTurn { order: self.clone(), who }
    }

    async fn all_said(&self) {
        let (tell, told) = oneshot::channel();
        let wait = async {
            if self.requests.send(tell).await.is_ok() {
                let _nobody_speaks_any_more = told.await;
            }
        };
        let _asked_all_the_same = timeout(PATIENCE, wait).await;
    }
}

/// Somebody who asks in turn.
pub struct InTurn<Who: ?Sized> {
    order: WordOrder,
    who: Arc<Who>,
}

impl<Who: Consent + ?Sized> Consent for InTurn<Who> {
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        Box::pin(async {
            self.order.all_said().await;
            self.who.consent(ask).await
        })
    }

    fn note(&self, text: &str) {
        self.who.note(text);
    }
}

impl<Who: Ask + ?Sized> Ask for InTurn<Who> {
    fn ask<'a>(&'a self, inquiry: &'a Inquiry) -> Asking<'a> {
        Box::pin(async {
            self.order.all_said().await;
            self.who.ask(inquiry).await
        })
    }

    fn wait<'a>(&'a self, inquiry: &'a Inquiry) -> Waiting<'a> {
        self.who.wait(inquiry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard::inquiry::{Reply, Subject};

    struct Scribe(mpsc::Sender<&'static str>);

    impl Ask for Scribe {
        fn ask<'a>(&'a self, _inquiry: &'a Inquiry) -> Asking<'a> {
            Box::pin(async {
                self.0.send("asked").await.expect("the test listens");
                Reply::Decline("no".to_owned())
            })
        }
    }

    fn inquiry() -> Inquiry {
        let form = switchboard::form::Form { message: "?".to_owned(), fields: Vec::new() };
        Inquiry { server: "demo".to_owned(), subject: Subject::Form(form) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_waits_until_all_has_been_said() {
        let (order, mut requests) = WordOrder::new();
        let (log, mut lines) = mpsc::channel(4);
        let asker = order.keep(Arc::new(Scribe(log.clone())));
        let task = tokio::spawn(async move { asker.ask(&inquiry()).await });

        let waits = requests.recv().await.expect("it waits");
        log.send("said").await.expect("the test listens");
        waits.send(()).expect("it still waits");
        task.await.expect("it is asked");

        assert_eq!((lines.recv().await, lines.recv().await), (Some("said"), Some("asked")));
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_speaks_a_question_is_asked_all_the_same() {
        let (order, requests) = WordOrder::new();
        let (log, mut lines) = mpsc::channel(4);
        let asker = order.keep(Arc::new(Scribe(log)));

        asker.ask(&inquiry()).await;
        drop(requests);
        asker.ask(&inquiry()).await;

        assert_eq!((lines.recv().await, lines.recv().await), (Some("asked"), Some("asked")));
    }
}
