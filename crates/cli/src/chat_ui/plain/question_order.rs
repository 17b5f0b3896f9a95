//! Keeps output and questions in order in plain mode: a question is asked once all earlier output is printed.
//! The printer answers [`QuestionTurns`]; prompts are wrapped in [`OrderedPrompts`].

use std::sync::Arc;
use std::time::Duration;

use switchboard::elicitation::{ElicitFuture, Elicitation, Elicitor, WaitFuture};
use switchboard::permission::{DecisionFuture, PermissionPrompt, PermissionRequest};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How many questions may wait.
const TURN_BUFFER: usize = 16;
/// How long a question waits at most: between turns the printer does not answer.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The questions that wait until all output is printed.
pub type QuestionTurns = mpsc::Receiver<oneshot::Sender<()>>;

/// Lets questions wait until all output is printed.
#[derive(Debug, Clone)]
pub struct QuestionOrder {
    turns: mpsc::Sender<oneshot::Sender<()>>,
}

impl QuestionOrder {
    /// An order, and the printer's end of it.
    pub fn new() -> (QuestionOrder, QuestionTurns) {
        let (turns, waiting) = mpsc::channel(TURN_BUFFER);
        (QuestionOrder { turns }, waiting)
    }

    /// A prompt that waits its turn.
    pub fn ordered<P: ?Sized>(&self, inner: Arc<P>) -> OrderedPrompts<P> {
        OrderedPrompts { order: self.clone(), inner }
    }

    async fn wait_for_output(&self) {
        let (sender, receiver) = oneshot::channel();
        let wait = async {
            if self.turns.send(sender).await.is_ok() {
                let _printer_gone = receiver.await;
            }
        };
        let _timed_out = timeout(MAX_WAIT, wait).await;
    }
}

/// A prompt that waits its turn.
pub struct OrderedPrompts<P: ?Sized> {
    order: QuestionOrder,
    inner: Arc<P>,
}

impl<P: PermissionPrompt + ?Sized> PermissionPrompt for OrderedPrompts<P> {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async {
            self.order.wait_for_output().await;
            self.inner.decide(request).await
        })
    }

    fn warn(&self, text: &str) {
        self.inner.warn(text);
    }
}

impl<P: Elicitor + ?Sized> Elicitor for OrderedPrompts<P> {
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
    use switchboard::elicitation::{ElicitResult, ElicitationKind};

    struct RecordingElicitor(mpsc::Sender<&'static str>);

    impl Elicitor for RecordingElicitor {
        fn elicit<'a>(&'a self, _elicitation: &'a Elicitation) -> ElicitFuture<'a> {
            Box::pin(async {
                self.0.send("asked").await.expect("the test listens");
                ElicitResult::Decline("no".to_owned())
            })
        }
    }

    fn elicitation() -> Elicitation {
        let form = switchboard::elicitation::Form { message: "?".to_owned(), fields: Vec::new() };
        Elicitation { server: "demo".to_owned(), kind: ElicitationKind::Form(form) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_waits_until_all_output_is_printed() {
        let (order, mut turns) = QuestionOrder::new();
        let (log, mut lines) = mpsc::channel(4);
        let prompt = order.ordered(Arc::new(RecordingElicitor(log.clone())));
        let task = tokio::spawn(async move { prompt.elicit(&elicitation()).await });

        let turn = turns.recv().await.expect("it waits");
        log.send("printed").await.expect("the test listens");
        turn.send(()).expect("it still waits");
        task.await.expect("it is asked");

        assert_eq!((lines.recv().await, lines.recv().await), (Some("printed"), Some("asked")));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_printer_a_question_is_asked_after_a_timeout() {
        let (order, turns) = QuestionOrder::new();
        let (log, mut lines) = mpsc::channel(4);
        let prompt = order.ordered(Arc::new(RecordingElicitor(log)));

        prompt.elicit(&elicitation()).await;
        drop(turns);
        prompt.elicit(&elicitation()).await;

        assert_eq!((lines.recv().await, lines.recv().await), (Some("asked"), Some("asked")));
    }
}
