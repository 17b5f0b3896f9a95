//! Keeps the order of words in plain lines: a question is asked only when all that came before it has been said.
//! Whoever says things answers `Requests`; whoever asks goes through `InTurn`.

use std::sync::Arc;
use std::time::Duration;

use switchboard::call::pipeline::{DecisionFuture, PermissionPrompt, PermissionRequest};
use switchboard::elicitation::elicitor::{ElicitFuture, Elicitation, Elicitor, WaitFuture};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How many questions may wait to be asked.
const TURN_BUFFER: usize = 16;
/// How long a question waits. Where nothing is under way nobody says that all has been said.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Those who wait until all has been said.
pub type QuestionTurns = mpsc::Receiver<oneshot::Sender<()>>;

/// Asks when all has been said.
#[derive(Debug, Clone)]
pub struct QuestionOrder {
    turns: mpsc::Sender<oneshot::Sender<()>>,
}

impl QuestionOrder {
    /// An order of words, and the end of whoever says them.
    pub fn new() -> (QuestionOrder, QuestionTurns) {
        let (requests, waiting) = mpsc::channel(TURN_BUFFER);
        (QuestionOrder { turns: requests }, waiting)
    }

    /// Somebody who asks in turn.
    pub fn ordered<Who: ?Sized>(&self, inner: Arc<Who>) -> OrderedPrompts<Who> {
        OrderedPrompts { order: self.clone(), inner }
    }

    async fn wait_for_output(&self) {
        let (tell, told) = oneshot::channel();
        let wait = async {
            if self.turns.send(tell).await.is_ok() {
                let _nobody_speaks_any_more = told.await;
            }
        };
        let _asked_all_the_same = timeout(MAX_WAIT, wait).await;
    }
}

/// Somebody who asks in turn.
pub struct OrderedPrompts<Who: ?Sized> {
    order: QuestionOrder,
    inner: Arc<Who>,
}

impl<Who: PermissionPrompt + ?Sized> PermissionPrompt for OrderedPrompts<Who> {
    fn decide<'a>(&'a self, ask: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async {
            self.order.wait_for_output().await;
            self.inner.decide(ask).await
        })
    }

    fn warn(&self, text: &str) {
        self.inner.warn(text);
    }
}

impl<Who: Elicitor + ?Sized> Elicitor for OrderedPrompts<Who> {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        Box::pin(async {
            self.order.wait_for_output().await;
            self.inner.elicit(elicitation).await
        })
    }

    fn wait_for_completion<'a>(&'a self, elicitation: &'a Elicitation) -> WaitFuture<'a> {
        self.inner.wait_for_completion(elicitation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard::elicitation::elicitor::{ElicitResult, ElicitationKind};

    struct RecordingElicitor(mpsc::Sender<&'static str>);

    impl Elicitor for RecordingElicitor {
        fn elicit<'a>(&'a self, _inquiry: &'a Elicitation) -> ElicitFuture<'a> {
            Box::pin(async {
                self.0.send("asked").await.expect("the test listens");
                ElicitResult::Decline("no".to_owned())
            })
        }
    }

    fn elicitation() -> Elicitation {
        let form =
            switchboard::elicitation::form::Form { message: "?".to_owned(), fields: Vec::new() };
        Elicitation { server: "demo".to_owned(), kind: ElicitationKind::Form(form) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_waits_until_all_has_been_said() {
        let (order, mut requests) = QuestionOrder::new();
        let (log, mut lines) = mpsc::channel(4);
        let asker = order.ordered(Arc::new(RecordingElicitor(log.clone())));
        let task = tokio::spawn(async move { asker.elicit(&elicitation()).await });

        let waits = requests.recv().await.expect("it waits");
        log.send("said").await.expect("the test listens");
        waits.send(()).expect("it still waits");
        task.await.expect("it is asked");

        assert_eq!((lines.recv().await, lines.recv().await), (Some("said"), Some("asked")));
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_speaks_a_question_is_asked_all_the_same() {
        let (order, requests) = QuestionOrder::new();
        let (log, mut lines) = mpsc::channel(4);
        let asker = order.ordered(Arc::new(RecordingElicitor(log)));

        asker.elicit(&elicitation()).await;
        drop(requests);
        asker.elicit(&elicitation()).await;

        assert_eq!((lines.recv().await, lines.recv().await), (Some("asked"), Some("asked")));
    }
}
