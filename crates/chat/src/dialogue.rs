//! The loop of a conversation: one task that owns what was said. A turn asks the model, makes the calls that it wants,
//! and asks again until it has nothing more to call. Which tools it is shown is left to `offers`.

mod asking_model;
mod making_calls;
mod mouth;

use std::sync::Arc;
use std::time::Duration;

use switchboard::calling::Desk;
use switchboard::engine::Host;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::chronicle::Chronicle;
use crate::happening::{Happening, TurnEnd};
use crate::language_model::{Answered, LanguageModel, ModelError, Stop, Usage};
use crate::offers::Offers;
use crate::talk::{Order, Setting, Standing};
use crate::utterance::{CallWanted, Part, Speaker, Utterance};
use asking_model::Asked;
use mouth::{Halt, Mouth};

/// How long servers may take to come up before a model is asked for the first time.
const COMING_UP: Duration = Duration::from_secs(3);
/// What a model is told of a call that was not made, or not finished, because the person had enough.
const STOPPED: &str = "the person stopped it";
/// What a model is told of an answer that the person had enough of.
pub(crate) const STOPPED_HERE: &str = "[the person stopped the answer here]";
/// What a model is told of a call in an answer that was cut.
const CUT: &str = "the answer was cut short before the call was made; make it again, shorter";

/// A conversation.
pub(crate) struct Dialogue {
    host: Host,
    desk: Arc<Desk>,
    system: Arc<str>,
    rounds: usize,
    said: Vec<Utterance>,
    offers: Offers,
    spent: Usage,
    /// How many calls there were, to name those that the model did not name.
    calls: u64,
    chronicle: Option<Chronicle>,
    standing: watch::Sender<Standing>,
    /// Have the servers had their time to come up?
    has_waited: bool,
}

impl Dialogue {
    pub(crate) fn begin(
        setting: Setting,
        chronicle: Option<Chronicle>,
        standing: watch::Sender<Standing>,
    ) -> Begun {
        let Setting { host, desk, model, system, before, rounds } = setting;
        let mut offers = Offers::default();
        offers.recall(&before);
        let id = chronicle.as_ref().and_then(|it| it.id()).map(Arc::from);
        standing.send_modify(|it| it.id = id);
        let (said, spent, calls) = (before, Usage::default(), 0);
        let dialogue = Dialogue {
            host,
            desk,
            system,
            rounds,
            said,
            offers,
            spent,
            calls,
            chronicle,
            standing,
            has_waited: false,
        };
        Begun { dialogue, model }
    }

    /// One turn: from what waits to be heard to the model's last word.
    async fn turn(&mut self, mouth: &mut Mouth) -> TurnEnd {
        self.take_up(mouth, Vec::new()).await;
        self.wait_for_servers(mouth).await;
        for _round in 0..self.rounds {
            if let Some(desk) = mouth.take_desk() {
                self.desk = desk;
            }
            let Some(model) = mouth.model() else { return TurnEnd::Failed(not_set()) };
            let answered = match self.ask(&*model, mouth).await {
                Asked::Answered(answered) => self.named(answered),
                Asked::Failed(error) => return TurnEnd::Failed(error),
                Asked::Halted { text } => {
                    self.keep_beginning(text).await;
                    return TurnEnd::Interrupted;
                }
            };
            let Answered { parts, stop, usage } = answered;
            self.count(&usage);
            let calls = calls_in(&parts);
            if !parts.is_empty() {
                self.add(Utterance { speaker: Speaker::Assistant, parts }).await;
            }
            mouth.tell(Happening::AnswerEnded).await;
            mouth.tell(Happening::Used(self.spent)).await;
            if stop == Stop::Length || stop == Stop::Refusal {
                self.leave_unmade(&calls, CUT).await;
                return if stop == Stop::Length { TurnEnd::CutShort } else { TurnEnd::Refused };
            }
            if calls.is_empty() {
                return TurnEnd::Finished;
            }
            let results = self.make(&calls, mouth).await;
            let is_halted = mouth.halt().is_some();
            let results = results.into_iter().map(Part::Result).collect();
            match is_halted {
                true => self.add(Utterance { speaker: Speaker::User, parts: results }).await,
                false => self.take_up(mouth, results).await,
            }
            if is_halted {
                return TurnEnd::Interrupted;
            }
        }
        TurnEnd::TooManyRounds
    }

    /// Who speaks as soon as the program is there should have the tools too. Once: a server that does not come up holds
    /// nobody up a second time.
    async fn wait_for_servers(&mut self, mouth: &mut Mouth) {
        if std::mem::replace(&mut self.has_waited, true) {
            return;
        }
        let host = self.host.clone();
        let ready = timeout(COMING_UP, async {
            host.settled().await;
            host.settled_pool().await;
        });
        let mut ready = std::pin::pin!(ready);
        while mouth.halt().is_none() {
            tokio::select! {
                _ready_or_not = &mut ready => return,
                () = mouth.listen() => {}
            }
        }
    }

    /// What waits becomes part of the conversation, behind the results of calls where there are some.
    async fn take_up(&mut self, mouth: &mut Mouth, results: Vec<Part>) {
        let waiting = mouth.take_waiting();
        let (sayings, mut parts) = (waiting.len(), results);
        parts.extend(waiting.into_iter().flatten());
        if !parts.is_empty() {
            self.add(Utterance { speaker: Speaker::User, parts }).await;
        }
        if sayings > 0 {
            mouth.tell(Happening::TakenUp { sayings }).await;
        }
    }

    /// An answer that was stopped stays as far as the person has seen it.
    async fn keep_beginning(&mut self, text: String) {
        if !text.trim().is_empty() {
            let parts = vec![Part::Text { text }];
            self.add(Utterance { speaker: Speaker::Assistant, parts }).await;
            let text = STOPPED_HERE.to_owned();
            self.add(Utterance { speaker: Speaker::User, parts: vec![Part::Text { text }] }).await;
        }
    }

    /// A conversation in which a call has no result is one that models refuse.
    async fn leave_unmade(&mut self, calls: &[CallWanted], why: &str) {
        if !calls.is_empty() {
            let parts = calls.iter().map(|it| Part::Result(making_calls::unmade(it, why)));
            let parts = parts.collect();
            self.add(Utterance { speaker: Speaker::User, parts }).await;
        }
    }

    async fn add(&mut self, utterance: Utterance) {
        self.said.push(utterance.clone());
        let Some(mut chronicle) = self.chronicle.take() else { return };
        let write = move || {
            let written = chronicle.append(&utterance);
            (chronicle, written)
        };
        // A disk may take its time; nothing else waits for it.
        let Ok((chronicle, written)) = tokio::task::spawn_blocking(write).await else { return };
        let id = chronicle.id().map(Arc::from);
        match written {
            Ok(()) => {
                self.chronicle = Some(chronicle);
                self.standing.send_modify(|it| it.id = id);
            }
            // A record with a hole would be worse than one that ends here.
            Err(error) => {
                let why: Arc<str> = error.to_string().into();
                self.standing.send_modify(|it| it.not_kept = Some(why));
            }
        }
    }

    fn count(&mut self, usage: &Usage) {
        let Usage { input, cached, output } = &mut self.spent;
        *input = input.saturating_add(usage.input);
        *cached = cached.saturating_add(usage.cached);
        *output = output.saturating_add(usage.output);
        let context = usage.input.saturating_add(usage.output);
        self.standing.send_modify(|it| it.context = context);
    }

    /// Calls that have no name of their own get one: their results must find them.
    fn named(&mut self, mut answered: Answered) -> Answered {
        let mut seen: Vec<String> = Vec::new();
        for part in &mut answered.parts {
            if let Part::Call(call) = part {
                self.calls += 1;
                if call.id.is_empty() || seen.contains(&call.id) {
                    call.id = format!("call_{}", self.calls);
                }
                seen.push(call.id.clone());
            }
        }
        answered
    }

    fn forget(&mut self) {
        self.said.clear();
        self.offers = Offers::default();
        self.spent = Usage::default();
        self.chronicle = self.chronicle.take().map(Chronicle::another);
        self.standing.send_replace(Standing::default());
    }
}

fn calls_in(parts: &[Part]) -> Vec<CallWanted> {
    let call = |part: &Part| match part {
        Part::Call(call) => Some(call.clone()),
        Part::Text { .. } | Part::Picture { .. } | Part::Thought { .. } | Part::Result(_) => None,
    };
    parts.iter().filter_map(call).collect()
}

fn not_set() -> ModelError {
    let kind = crate::language_model::ModelErrorKind::NotSet;
    ModelError { model: "the model".to_owned(), kind }
}

/// A conversation that has not begun to listen yet.
pub(crate) struct Begun {
    dialogue: Dialogue,
    model: Option<Arc<dyn LanguageModel>>,
}

impl Begun {
    /// Listens until nobody is there any more.
    pub(crate) async fn run(self, orders: mpsc::Receiver<Order>, out: mpsc::Sender<Happening>) {
        let Begun { mut dialogue, model } = self;
        let mut mouth = Mouth::new(orders, out, model);
        loop {
            match mouth.halt() {
                Some(Halt::Gone) => return,
                Some(Halt::Clear) => dialogue.forget(),
                // What is to be stopped has ended by itself.
                Some(Halt::Interrupt) | None => {}
            }
            mouth.go_on();
            if !mouth.has_waiting() {
                mouth.listen().await;
                continue;
            }
            let ended = dialogue.turn(&mut mouth).await;
            mouth.tell(Happening::TurnEnded(ended)).await;
        }
    }
}
