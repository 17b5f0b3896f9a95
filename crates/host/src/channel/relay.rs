//! The permission requests that were sent to channels and have no answer yet. An answer counts once, for an open request, from
//! a channel that the request was sent to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use switchboard_auth::time_and_random::fill_random;
use switchboard_wire::shared::Shared;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::message::{ID_LENGTH, ID_LETTERS, ReceivedAnswer, RelayVerdict};

/// What a channel is told of a permission request. The texts are safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionQuestion {
    /// The tool's exposed name.
    pub tool_name: String,
    /// What is asked, without the arguments.
    pub description: String,
    /// The arguments, shortened.
    pub input_preview: String,
}

/// The answer to a relayed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayAnswer {
    /// The channel that answered.
    pub server: String,
    /// What it answered.
    pub verdict: RelayVerdict,
}

/// The open requests, by their ids. Shared, because connections need the outcome of an answer at once to count it, while
/// several calls ask.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenRequests(Shared<BTreeMap<String, OpenRequest>>);

#[derive(Debug)]
struct OpenRequest {
    /// The channels that it was sent to.
    recipients: BTreeSet<String>,
    answer: oneshot::Sender<RelayAnswer>,
}

/// The answer is for no open request of this channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoSuchRequest;

impl OpenRequests {
    /// Opens a request with a new id, for the channels of these servers.
    pub(super) fn open(&self, recipients: BTreeSet<String>) -> RelayedRequest {
        let (answer, answered) = oneshot::channel();
        let id = self.0.update(|open| {
            let mut id = new_id();
            while open.contains_key(&id) {
                id = new_id();
            }
            open.insert(id.clone(), OpenRequest { recipients, answer });
            id
        });
        let id = OpenRequestId { id, open: self.clone() };
        RelayedRequest { id, answered, sending: JoinSet::new() }
    }

    /// Answers a request and closes it.
    pub(super) fn answer(&self, server: &str, answer: ReceivedAnswer) -> Result<(), NoSuchRequest> {
        let ReceivedAnswer { request_id, verdict } = answer;
        let request = self.0.update(|open| {
            let is_recipient = open.get(&request_id)?.recipients.contains(server);
            if is_recipient { open.remove(&request_id) } else { None }
        });
        let request = request.ok_or(NoSuchRequest)?;
        let answer = RelayAnswer { server: server.to_owned(), verdict };
        // The receiver is gone where the request was decided in the same moment.
        request.answer.send(answer).map_err(|_| NoSuchRequest)
    }
}

/// A request that is open until this is dropped.
#[derive(Debug)]
struct OpenRequestId {
    id: String,
    open: OpenRequests,
}

impl Drop for OpenRequestId {
    fn drop(&mut self) {
        self.open.0.update(|open| open.remove(&self.id));
    }
}

/// A request that was sent to channels. Dropping it closes the request, so that later answers do not count.
#[derive(Debug)]
pub struct RelayedRequest {
    id: OpenRequestId,
    answered: oneshot::Receiver<RelayAnswer>,
    /// Sends to channels that may be slow to read. Ends with the request.
    sending: JoinSet<()>,
}

impl RelayedRequest {
    /// The parameters of the notification that asks a channel.
    pub(crate) fn params(&self, question: &PermissionQuestion) -> Json {
        json!({
            "request_id": self.id.id,
            "tool_name": question.tool_name,
            "description": question.description,
            "input_preview": question.input_preview,
        })
    }

    /// Runs the work that sends the notification to one channel.
    pub(crate) fn spawn(&mut self, sending: impl Future<Output = ()> + Send + 'static) {
        self.sending.spawn(sending);
    }

    /// Waits for the first answer; never returns where none comes. Cancel-safe.
    pub async fn answer(&mut self) -> RelayAnswer {
        match (&mut self.answered).await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Five letters from the system's random generator.
fn new_id() -> String {
    // The largest multiple of the number of letters, so that no letter is more likely than another.
    const LIMIT: u8 = 250;
    let mut id = String::with_capacity(ID_LENGTH);
    let mut bytes = [0; 16];
    while id.len() < ID_LENGTH {
        fill_random(&mut bytes);
        let letters = bytes.iter().filter(|it| **it < LIMIT);
        let letters = letters.map(|it| char::from(ID_LETTERS[usize::from(*it) % ID_LETTERS.len()]));
        id.extend(letters.take(ID_LENGTH - id.len()));
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: &str, verdict: RelayVerdict) -> ReceivedAnswer {
        ReceivedAnswer { request_id: id.to_owned(), verdict }
    }

    fn recipients(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|it| (*it).to_owned()).collect()
    }

    #[tokio::test]
    async fn the_first_answer_of_a_recipient_counts_and_no_other() {
        let open = OpenRequests::default();
        let mut request = open.open(recipients(&["a", "b"]));
        let id = request.id.id.clone();
        let deny = || answer(&id, RelayVerdict::Deny);
        assert_eq!(open.answer("stranger", deny()), Err(NoSuchRequest));
        assert_eq!(open.answer("b", answer("zzzzz", RelayVerdict::Allow)), Err(NoSuchRequest));
        assert_eq!(open.answer("b", deny()), Ok(()));
        assert_eq!(open.answer("b", answer(&id, RelayVerdict::Allow)), Err(NoSuchRequest));
        assert_eq!(open.answer("a", deny()), Err(NoSuchRequest));
        let expected = RelayAnswer { server: "b".to_owned(), verdict: RelayVerdict::Deny };
        assert_eq!(request.answer().await, expected);
    }

    #[test]
    fn a_request_that_was_decided_elsewhere_takes_no_answer() {
        let open = OpenRequests::default();
        let request = open.open(recipients(&["a"]));
        let late = answer(&request.id.id, RelayVerdict::Allow);
        drop(request);
        assert_eq!(open.answer("a", late), Err(NoSuchRequest));
        assert!(open.0.read(BTreeMap::is_empty));
    }

    #[test]
    fn ids_are_five_letters_without_l_and_differ() {
        let ids: BTreeSet<String> = (0..2000).map(|_| new_id()).collect();
        // Among 9.7 million ids, 2000 have a collision in one of five runs, and rarely more than two.
        assert!(ids.len() > 1990, "{}", ids.len());
        let letters: BTreeSet<u8> = ids.iter().flat_map(|it| it.bytes()).collect();
        assert_eq!(letters, ID_LETTERS.iter().copied().collect());
        assert!(ids.iter().all(|it| it.len() == ID_LENGTH));
    }
}
