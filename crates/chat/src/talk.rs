//! A conversation as a face holds it: what can be said to it. The loop behind it is one task, and lives in `dialogue`.

use std::sync::Arc;

use switchboard::calling::Desk;
use switchboard::engine::Host;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::chronicle::Chronicle;
use crate::dialogue::Dialogue;
use crate::happening::Happening;
use crate::language_model::LanguageModel;
use crate::utterance::{Part, Utterance};

/// How often a model may call tools and go on in one turn, unless told otherwise.
pub const USUAL_ROUNDS: usize = 50;
/// How many orders may wait. The loop takes them whatever else it does.
const ORDERS: usize = 16;
/// How much may have happened that nobody has looked at yet; then the conversation waits.
const HAPPENINGS: usize = 256;

/// What a conversation is made of.
pub struct Setting {
    /// Where tools are called.
    pub host: Host,
    /// Under which rules, and who is asked.
    pub desk: Arc<Desk>,
    /// Who answers. Without one, everything that is said fails with a hint.
    pub model: Option<Arc<dyn LanguageModel>>,
    /// What the model should know of its place. What servers say of themselves is added by the loop.
    pub system: Arc<str>,
    /// What was said before, where a conversation is gone on with.
    pub before: Vec<Utterance>,
    /// How often a model may call tools and go on, in one turn.
    pub rounds: usize,
}

/// How a conversation stands.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// What its record on disk is called, where it is kept and something was said.
    pub id: Option<Arc<str>>,
    /// How many tokens the model last looked at and wrote: what the next answer begins with.
    pub context: u64,
    /// Why it is not kept on disk any more, where that failed.
    pub not_kept: Option<Arc<str>>,
}

/// A conversation. Clones are the same one; it ends when all are gone.
#[derive(Debug, Clone)]
pub struct Talk {
    orders: mpsc::Sender<Order>,
    standing: watch::Receiver<Standing>,
}

/// What a face may want.
pub(crate) enum Order {
    Say(Vec<Part>),
    Interrupt,
    Clear,
    Model(Option<Arc<dyn LanguageModel>>),
    Desk(Arc<Desk>),
    TakeBack(oneshot::Sender<bool>),
}

impl Talk {
    /// Begins one that nobody keeps. What happens in it comes out of the receiver; the task ends after the last `Talk`
    /// is gone, and what is under way then is stopped.
    pub fn begin(setting: Setting) -> (Talk, mpsc::Receiver<Happening>, JoinHandle<()>) {
        Talk::start(setting, None)
    }

    /// The same, kept on disk as it goes.
    pub fn begin_kept(
        setting: Setting,
        chronicle: Chronicle,
    ) -> (Talk, mpsc::Receiver<Happening>, JoinHandle<()>) {
        Talk::start(setting, Some(chronicle))
    }

    fn start(
        setting: Setting,
        chronicle: Option<Chronicle>,
    ) -> (Talk, mpsc::Receiver<Happening>, JoinHandle<()>) {
        let (orders, heard) = mpsc::channel(ORDERS);
        let (out, happenings) = mpsc::channel(HAPPENINGS);
        let (shown, standing) = watch::channel(Standing::default());
        let dialogue = Dialogue::begin(setting, chronicle, shown);
        let task = tokio::spawn(dialogue.run(heard, out));
        (Talk { orders, standing }, happenings, task)
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

    /// Forgets everything that was said, and what waits. A turn under way is stopped.
    pub async fn clear(&self) {
        let _ended = self.orders.send(Order::Clear).await;
    }

    /// Goes on with another model, from the next answer on.
    pub async fn set_model(&self, model: Option<Arc<dyn LanguageModel>>) {
        let _ended = self.orders.send(Order::Model(model)).await;
    }

    /// Goes on at another desk, from the next round on: other rules, or more or less to be asked.
    pub async fn set_desk(&self, desk: Arc<Desk>) {
        let _ended = self.orders.send(Order::Desk(desk)).await;
    }

    /// Takes back what was said last. Says whether it still waited: what was taken up stays said.
    pub async fn take_back(&self) -> bool {
        let (reply, taken) = oneshot::channel();
        let _ended = self.orders.send(Order::TakeBack(reply)).await;
        taken.await.unwrap_or(false)
    }

    /// How the conversation stands.
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }
}
