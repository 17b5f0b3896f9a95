//! A conversation as a face holds it: what can be said to it. The loop behind it is one task.

use std::sync::Arc;

use switchboard::calling::Desk;
use switchboard::engine::Host;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::happening::Happening;
use crate::language_model::LanguageModel;
use crate::utterance::{Part, Utterance};

/// What a conversation is made of.
pub struct Setting {
    /// Where tools are called.
    pub host: Host,
    /// Under which rules, and who is asked.
    pub desk: Arc<Desk>,
    /// Who answers. Without one, everything that is said fails with a hint.
    pub model: Option<Arc<dyn LanguageModel>>,
    /// What the model should know of its place.
    pub system: Arc<str>,
    /// What was said before, where a conversation is gone on with.
    pub before: Vec<Utterance>,
    /// How often a model may call tools and go on, in one turn.
    pub rounds: usize,
}

/// A conversation. Clones are the same one; it ends when all are gone.
#[derive(Debug, Clone)]
pub struct Talk {
    orders: mpsc::Sender<Order>,
}

/// What a face may want.
#[expect(dead_code, reason = "the loop reads them")]
enum Order {
    Say(Vec<Part>),
    Interrupt,
    Clear,
    Model(Option<Arc<dyn LanguageModel>>),
}

impl Talk {
    /// Begins one. What happens in it comes out of the receiver; the task ends after the last `Talk` is gone.
    pub fn begin(setting: Setting) -> (Talk, mpsc::Receiver<Happening>, JoinHandle<()>) {
        todo!("{}", setting.rounds)
    }

    /// Says something. While a turn is under way it waits, and is taken up as soon as the model can hear it: after the
    /// calls of this round, else in a turn of its own.
    pub async fn say(&self, parts: Vec<Part>) {
        let _ended = self.orders.send(Order::Say(parts)).await;
    }

    /// Stops the turn under way, its calls included. What was said stays.
    pub async fn interrupt(&self) {
        let _ended = self.orders.send(Order::Interrupt).await;
    }

    /// Forgets everything that was said.
    pub async fn clear(&self) {
        let _ended = self.orders.send(Order::Clear).await;
    }

    /// Goes on with another model.
    pub async fn set_model(&self, model: Option<Arc<dyn LanguageModel>>) {
        let _ended = self.orders.send(Order::Model(model)).await;
    }
}
