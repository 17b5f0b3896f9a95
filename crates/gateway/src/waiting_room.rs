//! Calls that wait for whoever runs the gateway, because nobody else can be asked for leave. One task owns who waits;
//! readers get a snapshot. How people hear of it and answer is left to whoever holds the room.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value as Json;
use switchboard::calling::{Consent, Consented, Consenting, PermissionQuestion};
use switchboard::pin::Alteration;
use switchboard_config::permission::Suggestion;
use switchboard_config::shown;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// How many calls may wait, of all and of one principal.
const MOST: usize = 256;
const MOST_OF_ONE: usize = 64;
/// How many commands may wait.
const COMMANDS: usize = 64;
/// The most that is shown of a call's arguments, and of what changed about its tool, in characters.
const SHOWN: usize = 16 * 1024;
/// The most lines that are shown of what changed about a tool, and the most of each, in characters.
const LINES: usize = 100;
const LINE: usize = 400;

/// A call that waits for leave.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// Tells it from all others of this room.
    pub number: u64,
    /// On whose behalf it is made.
    pub caller: String,
    /// The server.
    pub server: String,
    /// The tool, by the server's own name.
    pub tool: String,
    /// The arguments without what looks like a secret. A text, cut, where they are very long.
    pub arguments: Json,
    /// Why it is asked.
    pub because: String,
    /// What is odd about the tool.
    pub flags: Vec<String>,
    /// The rules that would answer it next time, narrowest first.
    pub suggestions: Vec<Suggestion>,
    /// What changed about the tool since it was approved, where something did.
    pub alteration: Option<Alteration>,
    /// Since when it waits.
    pub since: SystemTime,
}

/// Who waits at one moment, the longest first.
pub type Queue = Arc<[Arc<Waiting>]>;

/// A room. Clones are the same one; it is closed when the last is dropped.
#[derive(Clone)]
pub struct WaitingRoom {
    commands: mpsc::Sender<Command>,
    queue: watch::Receiver<Queue>,
    lasts: Duration,
}

impl fmt::Debug for WaitingRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitingRoom({})", self.queue.borrow().len())
    }
}

enum Command {
    Enter { waiting: Box<Waiting>, reply: oneshot::Sender<Consented> },
    Decide { number: u64, decision: Consented, decided: oneshot::Sender<Option<Arc<Waiting>>> },
}

impl WaitingRoom {
    /// How long a call waits, unless told otherwise.
    pub const USUAL: Duration = Duration::from_secs(300);

    /// A room in which calls wait so long, and the work of keeping it. That ends with the last way to it.
    pub fn new(lasts: Duration) -> (WaitingRoom, impl Future<Output = ()> + Send + 'static) {
        let (commands, from_calls) = mpsc::channel(COMMANDS);
        let (publish, queue) = watch::channel(Queue::default());
        let keeper = Keeper { publish, lasts, waiting: BTreeMap::new(), keeping: JoinSet::new() };
        (WaitingRoom { commands, queue, lasts }, keeper.run(from_calls))
    }

    /// Who waits now.
    pub fn queue(&self) -> Queue {
        self.queue.borrow().clone()
    }

    /// Who waits, now and later.
    pub fn watch(&self) -> watch::Receiver<Queue> {
        self.queue.clone()
    }

    /// Answers for a call that waits. None where none of that number does any more.
    pub async fn decide(&self, number: u64, decision: Consented) -> Option<Arc<Waiting>> {
        let (decided, answer) = oneshot::channel();
        self.commands.send(Command::Decide { number, decision, decided }).await.ok()?;
        answer.await.ok()?
    }

    async fn asked(&self, ask: &PermissionQuestion<'_>) -> Consented {
        let (reply, answer) = oneshot::channel();
        let waiting = Box::new(Waiting::new(ask));
        let closed = || Consented::No(format!("{}, and nobody can be asked any more", ask.because));
        if self.commands.send(Command::Enter { waiting, reply }).await.is_err() {
            return closed();
        }
        answer.await.unwrap_or_else(|_| closed())
    }
}

impl Consent for WaitingRoom {
    /// Waits until somebody answers. Dropping it withdraws the call.
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        match self.lasts.is_zero() {
            true => {
                let why = format!("{}, and nobody is asked here", ask.because);
                Box::pin(async { Consented::No(why) })
            }
            false => Box::pin(self.asked(ask)),
        }
    }
}

impl Waiting {
    fn new(ask: &PermissionQuestion<'_>) -> Waiting {
        let lines = ask.alteration.as_ref().map(|it| {
            let lines = it.lines.iter().take(LINES);
            lines.map(|(change, line)| (*change, line.chars().take(LINE).collect())).collect()
        });
        Waiting {
            number: 0,
            caller: ask.caller.to_owned(),
            server: ask.tool.server.clone(),
            tool: ask.tool.name.clone(),
            arguments: cut(shown::values(ask.arguments)),
            because: ask.because.clone(),
            flags: ask.tool.flags().iter().map(ToString::to_string).collect(),
            suggestions: ask.suggestions.clone(),
            alteration: lines.map(|lines| Alteration { lines }),
            since: SystemTime::now(),
        }
    }
}

/// Arguments that are too long become a text that says how much is missing.
fn cut(arguments: Json) -> Json {
    let text = arguments.to_string();
    let length = text.chars().count();
    if length <= SHOWN {
        return arguments;
    }
    let begin: String = text.chars().take(SHOWN).collect();
    format!("{begin}… ({} more characters)", length - SHOWN).into()
}

struct Keeper {
    publish: watch::Sender<Queue>,
    lasts: Duration,
    waiting: BTreeMap<u64, (Arc<Waiting>, oneshot::Sender<Consented>)>,
    keeping: JoinSet<u64>,
}

impl Keeper {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut last = 0;
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Enter { waiting, reply }) => {
                        if let Some(full) = self.obstacle(&waiting) {
                            let _client_gone = reply.send(full);
                            continue;
                        }
                        last += 1;
                        self.enter(Waiting { number: last, ..*waiting }, reply);
                    }
                    Some(Command::Decide { number, decision, decided }) => {
                        let found = self.waiting.remove(&number);
                        let answered = found.and_then(|(waiting, answer)| {
                            answer.send(decision).is_ok().then_some(waiting)
                        });
                        let _nobody_asks = decided.send(answered);
                    }
                    None => break,
                },
                Some(over) = self.keeping.join_next() => {
                    if let Ok(number) = over {
                        self.waiting.remove(&number);
                    }
                }
            }
            self.tell();
        }
        self.keeping.shutdown().await;
    }

    fn obstacle(&self, new: &Waiting) -> Option<Consented> {
        let of_one = self.waiting.values().filter(|it| it.0.caller == new.caller).count();
        let is_full = self.waiting.len() >= MOST || of_one >= MOST_OF_ONE;
        let why = "and too many calls wait for an answer already";
        is_full.then(|| Consented::No(format!("{}, {why}", new.because)))
    }

    fn enter(&mut self, waiting: Waiting, reply: oneshot::Sender<Consented>) {
        let number = waiting.number;
        let (answer, answered) = oneshot::channel();
        let seconds = self.lasts.as_secs_f64();
        let late = format!("{}, and nobody answered within {seconds} s", waiting.because);
        let until = Instant::now() + self.lasts;
        self.waiting.insert(number, (Arc::new(waiting), answer));
        self.keeping.spawn(async move {
            keep((reply, answered), Consented::No(late), until).await;
            number
        });
    }

    fn tell(&self) {
        let now = self.waiting.values().map(|it| it.0.clone());
        self.publish.send_if_modified(|queue| {
            let is_same = now.clone().map(|it| it.number).eq(queue.iter().map(|it| it.number));
            if !is_same {
                *queue = now.collect();
            }
            !is_same
        });
    }
}

/// Waits for the answer, for the client to leave, or for the time to be over.
async fn keep(
    (mut reply, answered): (oneshot::Sender<Consented>, oneshot::Receiver<Consented>),
    late: Consented,
    until: Instant,
) {
    let answer = tokio::select! {
        biased;
        answer = answered => answer.ok(),
        () = reply.closed() => None,
        () = sleep_until(until) => Some(late),
    };
    if let Some(answer) = answer {
        let _client_gone = reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchboard::calling::Holds;

    use super::*;

    fn waiting(caller: &str) -> Waiting {
        Waiting {
            number: 0,
            caller: caller.to_owned(),
            server: "s".to_owned(),
            tool: "t".to_owned(),
            arguments: json!({}),
            because: "a rule asks".to_owned(),
            flags: Vec::new(),
            suggestions: Vec::new(),
            alteration: None,
            since: SystemTime::UNIX_EPOCH,
        }
    }

    fn open(lasts: Duration) -> WaitingRoom {
        let (room, keeping) = WaitingRoom::new(lasts);
        tokio::spawn(keeping);
        room
    }

    /// Has a call wait, and comes back when everybody can see it.
    async fn enter(room: &WaitingRoom, caller: &str) -> oneshot::Receiver<Consented> {
        let before = room.queue().last().map_or(0, |it| it.number);
        let (reply, answer) = oneshot::channel();
        let waiting = Box::new(waiting(caller));
        room.commands.send(Command::Enter { waiting, reply }).await.expect("it is open");
        let newer = |queue: &Queue| queue.last().is_some_and(|it| it.number > before);
        room.watch().wait_for(newer).await.expect("it is kept");
        answer
    }

    const YES: Consented = Consented::Yes { who: String::new(), holds: Holds::Once };

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_until_somebody_answers_and_nobody_answers_twice() {
        let room = open(WaitingRoom::USUAL);
        let (first, second) = (enter(&room, "ada").await, enter(&room, "bob").await);
        let callers: Vec<_> = room.queue().iter().map(|it| it.caller.clone()).collect();
        assert_eq!(callers, ["ada", "bob"]);
        let decided = room.decide(2, YES).await.expect("it waits");
        assert_eq!(decided.caller, "bob");
        assert_eq!(second.await, Ok(YES));
        assert_eq!(room.decide(2, YES).await, None);
        assert_eq!(room.queue().len(), 1);
        let no = Consented::No("no".to_owned());
        room.decide(1, no.clone()).await.expect("it waits");
        assert_eq!(first.await, Ok(no));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_nobody_answers_is_denied_when_its_time_is_over() {
        let room = open(Duration::from_secs(2));
        let answer = enter(&room, "ada").await;
        let late = "a rule asks, and nobody answered within 2 s".to_owned();
        assert_eq!(answer.await, Ok(Consented::No(late)));
        room.watch().wait_for(|it| it.is_empty()).await.expect("it is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_client_went_away_is_withdrawn() {
        let room = open(WaitingRoom::USUAL);
        drop(enter(&room, "ada").await);
        room.watch().wait_for(|it| it.is_empty()).await.expect("it is kept");
        assert_eq!(room.decide(1, YES).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_principal_cannot_fill_the_room() {
        let room = open(WaitingRoom::USUAL);
        let mut kept = Vec::new();
        for _ in 0..MOST_OF_ONE {
            kept.push(enter(&room, "ada").await);
        }
        let (reply, answer) = oneshot::channel();
        let waiting = Box::new(waiting("ada"));
        room.commands.send(Command::Enter { waiting, reply }).await.expect("it is open");
        let Ok(Consented::No(why)) = answer.await else { panic!("there was room") };
        assert_eq!(why, "a rule asks, and too many calls wait for an answer already");
        let _bob = enter(&room, "bob").await;
        assert_eq!(room.queue().len(), MOST_OF_ONE + 1);
    }

    #[test]
    fn arguments_that_are_very_long_say_how_much_is_missing() {
        let Json::String(text) = cut(json!({"a": "x".repeat(SHOWN)})) else { panic!("not cut") };
        assert!(text.ends_with("… (8 more characters)"), "{}", &text[SHOWN..]);
        assert_eq!(cut(json!({"a": 1})), json!({"a": 1}));
    }
}
