//! What a handler knows of its call, and what it can say and ask meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_wire::era::Era;
use switchboard_wire::message::Payload;
use switchboard_wire::peer::{Aside, Peer};
use switchboard_wire::reception::Asker;

use crate::question::{Answer, Question};
use crate::refusal::{Kind, Stop};
use crate::rounds::{Answers, MOST};

/// How long a person may think.
const PERSON: Duration = Duration::from_secs(3600);
/// How long a client may take to say which folders it works in.
const CLIENT: Duration = Duration::from_secs(10);
/// How many folders of a client are looked at.
const MOST_ROOTS: usize = 256;

/// One call, seen from its handler. Clones are of the same call.
#[derive(Debug, Clone)]
pub struct Context(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    asker: Asker,
    aside: Aside,
    peer: Peer,
    answers: Answers,
    asked: AtomicUsize,
    level: Arc<AtomicU8>,
    roots_changed: Arc<AtomicU64>,
    is_cancelled: AtomicBool,
}

/// How much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For whoever looks for a mistake.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth a second look.
    Notice,
    /// Not as it should be.
    Warning,
    /// Something did not work.
    Error,
    /// Something that others depend on did not work.
    Critical,
    /// Somebody has to act.
    Alert,
    /// Nothing works.
    Emergency,
}

impl Level {
    const ALL: [(Level, &str); 8] = [
        (Level::Debug, "debug"),
        (Level::Info, "info"),
        (Level::Notice, "notice"),
        (Level::Warning, "warning"),
        (Level::Error, "error"),
        (Level::Critical, "critical"),
        (Level::Alert, "alert"),
        (Level::Emergency, "emergency"),
    ];

    /// Reads the protocol's word.
    pub(crate) fn parse(text: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|(_, word)| *word == text).map(|(level, _)| level)
    }

    fn word(self) -> &'static str {
        Level::ALL.into_iter().find(|(level, _)| *level == self).map_or("info", |(_, word)| word)
    }

    /// How many levels are below.
    pub(crate) fn rank(self) -> u8 {
        Level::ALL.into_iter().zip(0..).find(|((it, _), _)| *it == self).map_or(0, |(_, rank)| rank)
    }
}

/// What a context is made of.
pub(crate) struct Parts {
    pub(crate) asker: Asker,
    pub(crate) aside: Aside,
    pub(crate) peer: Peer,
    pub(crate) answers: Answers,
    /// What a legacy client wants to hear, by rank.
    pub(crate) level: Arc<AtomicU8>,
    /// How often the client said that its folders changed.
    pub(crate) roots_changed: Arc<AtomicU64>,
}

impl Context {
    pub(crate) fn new(parts: Parts) -> Context {
        let Parts { asker, aside, peer, answers, level, roots_changed } = parts;
        Context(Arc::new(Inner {
            asker,
            aside,
            peer,
            answers,
            asked: AtomicUsize::new(0),
            level,
            roots_changed,
            is_cancelled: AtomicBool::new(false),
        }))
    }

    pub(crate) fn asker(&self) -> &Asker {
        &self.0.asker
    }

    pub(crate) fn answers(&self) -> &Answers {
        &self.0.answers
    }

    /// Is the call over for whoever made it? The handler itself is dropped then; this is for what it left to threads.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Tells how far the work is, where somebody wants to know.
    pub async fn progress(&self, done: u64, total: u64, message: &str) {
        let Some(token) = &self.0.asker.progress_token else { return };
        let params =
            json!({"progressToken": token, "progress": done, "total": total, "message": message});
        self.say("notifications/progress", &params).await;
    }

    /// Tells what goes on, where somebody wants to hear as much.
    pub async fn log(&self, level: Level, text: &str) {
        let wanted = match self.0.asker.era {
            Era::Legacy => Some(self.0.level.load(Ordering::Relaxed)),
            Era::Modern => {
                let word = self.0.asker.log_level.as_deref();
                word.and_then(Level::parse).map(Level::rank)
            }
        };
        if wanted.is_some_and(|wanted| level.rank() >= wanted) {
            let params = json!({"level": level.word(), "data": text});
            self.say("notifications/message", &params).await;
        }
    }

    /// How often the client has said that the folders it works in are others now.
    pub fn roots_revision(&self) -> u64 {
        self.0.roots_changed.load(Ordering::Relaxed)
    }

    /// The addresses of the folders that the client works in; none where it does not say. Ask before anything is
    /// done: a modern client answers by making the call anew. Hand a [`Stop`] on with `?`.
    pub async fn roots(&self) -> Result<Option<Vec<String>>, Stop> {
        const KEY: &str = "roots";
        if !self.0.asker.capabilities["roots"].is_object() {
            return Ok(None);
        }
        let answer = match self.0.asker.era {
            Era::Legacy => match self.0.peer.call("roots/list").within(CLIENT).await {
                Ok(answer) => answer.decode().unwrap_or_default(),
                Err(_) => return Ok(None),
            },
            Era::Modern => match self.0.answers.get(KEY) {
                Some(answer) => answer.clone(),
                None => {
                    let request = json!({"method": "roots/list"});
                    return Err(Stop(Kind::Asks { key: KEY.to_owned(), request }));
                }
            },
        };
        let Some(roots) = answer["roots"].as_array() else { return Ok(None) };
        let uris = roots.iter().take(MOST_ROOTS).filter_map(|root| root["uri"].as_str());
        Ok(Some(uris.map(str::to_owned).collect()))
    }

    async fn say(&self, method: &'static str, params: &Json) {
        let params = Payload::from_json(params.to_string().into());
        self.0.aside.say(method, Some(params)).await;
    }

    /// Asks the person behind the client. Ask before anything is done, and in the same order every time: a modern
    /// client answers by making the call anew, and the handler begins anew with it. Hand a [`Stop`] on with `?`.
    pub async fn ask(&self, question: &Question) -> Result<Answer, Stop> {
        let number = self.0.asked.fetch_add(1, Ordering::Relaxed);
        if number >= MOST {
            return Err(Stop::failed(format!("a call asks at most {MOST} questions")));
        }
        if !self.can_ask(question) {
            return Err(Stop::lacking(question.mode()));
        }
        match self.0.asker.era {
            Era::Legacy => self.ask_now(question).await,
            Era::Modern => {
                let key = format!("question-{}", number + 1);
                match self.0.answers.get(&key) {
                    Some(answer) => question.read(answer),
                    None => {
                        let request =
                            json!({"method": "elicitation/create", "params": question.params()});
                        Err(Stop(Kind::Asks { key, request }))
                    }
                }
            }
        }
    }

    /// A client that names no way to be asked can be asked by form: there was nothing else at first.
    fn can_ask(&self, question: &Question) -> bool {
        let Some(ways) = self.0.asker.capabilities["elicitation"].as_object() else {
            return false;
        };
        let mode = question.mode();
        ways.contains_key(mode) || (mode == "form" && !ways.contains_key("url"))
    }

    async fn ask_now(&self, question: &Question) -> Result<Answer, Stop> {
        let params = Payload::from_json(question.params().to_string().into());
        let call = self.0.peer.call("elicitation/create").params(params).within(PERSON);
        match call.await {
            Ok(answer) => {
                let answer: Json = answer.decode().unwrap_or_default();
                question.read(&answer)
            }
            Err(error) => Err(Stop::failed(format!("the question was not answered: {error}"))),
        }
    }
}
