//! Clients that call tools continuously and log the outcome of every call.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::failure::Failure;
use crate::gateway_client;
use crate::gateway_client::{ClientEra, Response};
use crate::random::SeededRandom;
use crate::servers;
use crate::servers::TestServer;
use crate::stdio_session::StdioSession;
use crate::verdict::history::{Call, Outcome};

/// The number of clients; every other one has a session.
pub const CLIENTS: u64 = 24;
/// The number of callers of each session that uses the shared host.
const CLIENTS_PER_SESSION: u64 = 2;
/// The longest pause between two calls of a client, in milliseconds.
const MAX_PAUSE_MS: u64 = 60;
/// The timeout of a call: it may wait for a connection, and be retried three times.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The prefix of every canary.
const CANARY: &str = "canary-";

/// The log of calls. Clones share it.
#[derive(Debug, Clone)]
pub struct CallLog {
    /// When the run started.
    pub start: Instant,
    address: String,
    calls: Arc<Mutex<Vec<Call>>>,
    number: Arc<AtomicU64>,
}

impl CallLog {
    /// An empty log, for calls to this address.
    pub fn new(address: &str) -> CallLog {
        let (calls, number) = (Arc::default(), Arc::default());
        CallLog { start: Instant::now(), address: address.to_owned(), calls, number }
    }

    /// The gateway's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The time since the start of the run.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().expect("no thread panics while it holds the lock")
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().clone()
    }

    /// Makes one call, logs its outcome, and returns whether it succeeded.
    pub async fn call(
        &self,
        test_server: &TestServer,
        era: &ClientEra,
        dice: &mut SeededRandom,
    ) -> Outcome {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let canary = format!("{CANARY}{number}-{:08x}", dice.next() >> 32);
        let (tool, arguments) = test_server.call(&canary, dice);
        let params = json!({"name": tool, "arguments": arguments});
        let (lines, body) = gateway_client::build_request(era, number, "tools/call", params);
        let sent = self.now();
        let response = gateway_client::send(&self.address, "POST /mcp", &lines, &body);
        let (outcome, answers) = match timeout(CALL_TIMEOUT, response).await {
            Err(_) => (Outcome::TimedOut, 0),
            Ok(Err(error)) => (Outcome::ProtocolError(error.to_string()), 0),
            Ok(Ok(response)) => classify_response(&response, number, &canary),
        };
        let server = test_server.name.to_owned();
        let ended = self.now();
        let call = Call { canary, server, sent, ended, outcome: outcome.clone(), answers };
        self.lock().push(call);
        outcome
    }

    /// Makes one call in a session over standard streams, and logs its outcome.
    pub async fn call_in_session(
        &self,
        session: &StdioSession,
        test_server: &TestServer,
        dice: &mut SeededRandom,
    ) -> Outcome {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let canary = format!("{CANARY}{number}-{:08x}", dice.next() >> 32);
        let (tool, arguments) = test_server.call(&canary, dice);
        let sent = self.now();
        let params = json!({"name": tool, "arguments": arguments});
        let response = session.request(number, "tools/call", params);
        let (outcome, answers) = match timeout(CALL_TIMEOUT, response).await {
            Err(_) => (Outcome::TimedOut, 0),
            Ok(Err(error)) => (Outcome::ProtocolError(error.to_string()), 0),
            Ok(Ok(answer)) => (classify_answer(&answer, &canary), 1),
        };
        let server = test_server.name.to_owned();
        let ended = self.now();
        let call = Call { canary, server, sent, ended, outcome: outcome.clone(), answers };
        self.lock().push(call);
        outcome
    }

    /// Counts stray responses: those on the GET stream of a session, or after the response of a call.
    pub fn count_stray_answers(&self, text: &str) {
        let stray_canaries = find_canaries(text);
        if stray_canaries.is_empty() {
            return;
        }
        for call in self.lock().iter_mut().filter(|it| stray_canaries.contains(&*it.canary)) {
            call.answers += 1;
        }
    }
}

/// Every canary in a text, in one pass: there are many calls, and clients wait meanwhile.
fn find_canaries(text: &str) -> HashSet<&str> {
    let begins = text.match_indices(CANARY).map(|(at, _)| &text[at..]);
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '-';
    begins.map(|it| it.split(|it| !is_part(it)).next().unwrap_or(it)).collect()
}

/// The outcome of a call, and its number of responses.
fn classify_response(response: &Response, number: u64, canary: &str) -> (Outcome, usize) {
    let messages = response.messages();
    let is_answer = |it: &&Json| {
        it["id"] == number && (it.get("result").is_some() || it.get("error").is_some())
    };
    let answers: Vec<&Json> = messages.iter().filter(is_answer).collect();
    let Some(answer) = answers.first() else {
        let said = format!("no answer in it: HTTP {} {}", response.status, response.body);
        return (Outcome::ProtocolError(said), 0);
    };
    (classify_answer(answer, canary), answers.len())
}

/// The outcome of a call, from its response.
fn classify_answer(answer: &Json, canary: &str) -> Outcome {
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    if let Some(error) = answer.get("error") {
        Outcome::Failed(error["message"].as_str().unwrap_or_default().to_owned())
    } else if result["isError"] == true {
        Outcome::Failed(text.to_owned())
    } else if text.contains(canary) {
        Outcome::Answered
    } else {
        Outcome::WrongAnswer(answer.to_string())
    }
}

/// A load that continues until it is stopped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<Result<(), Failure>>,
}

impl Load {
    /// Starts all clients.
    pub fn begin(call_log: &CallLog, servers: &[TestServer], seed: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let (call_log, servers) = (call_log.clone(), servers.to_vec());
            let (stop, dice) = (stop.clone(), SeededRandom::new(seed, 100 + number));
            clients.spawn(async move {
                match number % 2 {
                    0 => client(&call_log, &servers, (ClientEra::Modern, dice), &stop).await,
                    _ => with_session(&call_log, &servers, dice, &stop).await?,
                }
                Ok(())
            });
        }
        Load { stop, clients }
    }

    /// Starts the clients of sessions that use the shared host, in addition to the others.
    pub fn add_sessions(
        &mut self,
        call_log: &CallLog,
        sessions: &[Arc<StdioSession>],
        servers: &[TestServer],
        seed: u64,
    ) {
        for number in 0..sessions.len() as u64 * CLIENTS_PER_SESSION {
            let session = sessions[number as usize % sessions.len()].clone();
            let (call_log, servers) = (call_log.clone(), servers.to_vec());
            let (stop, mut dice) = (self.stop.clone(), SeededRandom::new(seed, 200 + number));
            self.clients.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let test_server = servers::pick(&servers, &mut dice);
                    call_log.call_in_session(&session, test_server, &mut dice).await;
                    sleep(Duration::from_millis(dice.below(MAX_PAUSE_MS))).await;
                }
                Ok(())
            });
        }
    }

    /// Lets every client finish its call. Fails if a client could not start or end a session.
    pub async fn end(mut self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.map_err(|error| Failure::new(format!("a client failed: {error}")))??;
        }
        Ok(())
    }
}

async fn client(
    call_log: &CallLog,
    servers: &[TestServer],
    (era, mut dice): (ClientEra, SeededRandom),
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        let test_server = servers::pick(servers, &mut dice);
        call_log.call(test_server, &era, &mut dice).await;
        sleep(Duration::from_millis(dice.below(MAX_PAUSE_MS))).await;
    }
}

async fn with_session(
    call_log: &CallLog,
    servers: &[TestServer],
    dice: SeededRandom,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let address = &call_log.address;
    let session = gateway_client::open_session(address).await;
    let session = session.map_err(|error| Failure::from_io("could not start a session", error))?;
    let stream = gateway_client::open_get_stream(address, &session).await;
    let mut stream = stream.map_err(|error| Failure::from_io("a session has no stream", error))?;
    let mut bytes = Vec::new();
    {
        let calls = client(call_log, servers, (ClientEra::Legacy(session.clone()), dice), stop);
        let mut calls = std::pin::pin!(calls);
        let mut is_open = true;
        loop {
            tokio::select! {
                () = &mut calls => break,
                read = stream.read_buf(&mut bytes), if is_open => is_open = matches!(read, Ok(1..)),
            }
        }
    }
    // This stream carries only notifications. A stray response would contain its call's canary.
    call_log.count_stray_answers(&String::from_utf8_lossy(&bytes));
    let ended = gateway_client::close_session(address, &session).await;
    ended.map_err(|error| Failure::from_io("a session could not be ended", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: (Outcome, usize)) {
        let response = Response { status: 200, head: String::new(), body: body.to_owned() };
        assert_eq!(classify_response(&response, 7, "canary-7"), expected, "{body}");
    }

    fn answer(text: &str, more: &str) -> String {
        format!(
            r#"{{"id": 7, "result": {{"content": [{{"type": "text", "text": "{text}"}}]{more}}}}}"#
        )
    }

    #[test]
    fn an_answer_is_one_with_its_number_and_its_canary() {
        check(&answer("Echo: canary-7", ""), (Outcome::Answered, 1));
        let other = answer("canary-8", "");
        let said: Json = serde_json::from_str(&other).unwrap();
        check(&other, (Outcome::WrongAnswer(said.to_string()), 1));
        check(&answer("no", ", \"isError\": true"), (Outcome::Failed("no".to_owned()), 1));
        let error = r#"{"id": 7, "error": {"code": -1, "message": "why"}}"#;
        check(error, (Outcome::Failed("why".to_owned()), 1));
    }

    #[test]
    fn two_answers_are_two_and_none_is_none() {
        let one = answer("canary-7", "");
        check(&format!("data: {one}\n\ndata: {one}\n\n"), (Outcome::Answered, 2));
        let none = "no answer in it: HTTP 200 data: {\"method\": \"m\"}".to_owned();
        check("data: {\"method\": \"m\"}", (Outcome::ProtocolError(none), 0));
    }

    #[test]
    fn an_answer_on_another_stream_counts_too() {
        let call_log = CallLog::new("");
        let call = Call {
            canary: "canary-7".to_owned(),
            server: "alpha".to_owned(),
            sent: Duration::ZERO,
            ended: Duration::ZERO,
            outcome: Outcome::Answered,
            answers: 1,
        };
        call_log.lock().push(call);
        call_log.count_stray_answers("data: {\"result\": \"canary-7\"}");
        assert_eq!(call_log.calls()[0].answers, 2);
        call_log.count_stray_answers("canary-71 is another one, and so is ühcanary-");
        assert_eq!(call_log.calls()[0].answers, 2);
        assert_eq!(
            find_canaries("ü:canary-1-a,x \\\"canary-2-b\\\""),
            HashSet::from(["canary-1-a", "canary-2-b"])
        );
    }
}
