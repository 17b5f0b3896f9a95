//! Which task is whose: the server that works on it, and the principal that began it. Of many, the oldest are forgotten.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use memchr::memmem::Finder;
use serde::Deserialize;
use switchboard_wire::message::{Payload, Word};
use tokio::sync::watch;

/// How many tasks are known at once.
const MOST: usize = 100_000;
/// The longest name of a task.
const LONGEST: usize = 1024;

/// The tasks. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(watch::Sender<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_task: HashMap<(Arc<str>, String), Arc<str>>,
    order: VecDeque<(Arc<str>, String)>,
}

impl Ledger {
    /// Notes a task, where a result is the beginning of one. Looking for the word first keeps large results unread.
    pub(crate) fn note(&self, result: &Payload, server: &str, principal: &Arc<str>) {
        static MENTIONED: Word = Word::new(|| Finder::new(b"\"taskId\""));
        if !result.mentions(&MENTIONED) {
            return;
        }
        let Some(task) = task_of(result).filter(|it| it.len() <= LONGEST) else { return };
        self.0.send_modify(|entries| {
            let place = (principal.clone(), task);
            // Of two servers that give out one name, the first has it.
            if entries.by_task.contains_key(&place) {
                return;
            }
            entries.by_task.insert(place.clone(), server.into());
            entries.order.push_back(place);
            if entries.order.len() > MOST
                && let Some(oldest) = entries.order.pop_front()
            {
                entries.by_task.remove(&oldest);
            }
        });
    }

    /// The server that works on a task of this principal.
    pub(crate) fn server_of(&self, task: &str, principal: &Arc<str>) -> Option<Arc<str>> {
        self.0.borrow().by_task.get(&(principal.clone(), task.to_owned())).cloned()
    }
}

/// The task that a result names: in itself in the modern era, inside of `task` in the legacy one.
fn task_of(result: &Payload) -> Option<String> {
    #[derive(Deserialize)]
    struct Inner {
        #[serde(rename = "taskId")]
        id: String,
    }
    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "taskId", default)]
        id: Option<String>,
        #[serde(default)]
        task: Option<Inner>,
    }
    let said: Said = result.decode().ok()?;
    said.id.or(said.task.map(|it| it.id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_is_its_principals_alone() {
        let ledger = Ledger::default();
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
        let result = |json| Payload::of(&json).expect("JSON");
        ledger.note(&result(json!({"resultType": "task", "taskId": "1"})), "s", &ada);
        ledger.note(&result(json!({"task": {"taskId": "2"}})), "s", &bob);
        ledger.note(&result(json!({"task": {"taskId": "1"}})), "other", &bob);
        assert_eq!(ledger.server_of("1", &ada).as_deref(), Some("s"));
        assert_eq!(ledger.server_of("1", &bob).as_deref(), Some("other"));
        assert_eq!(ledger.server_of("2", &ada), None);
        assert_eq!(ledger.server_of("2", &bob).as_deref(), Some("s"));
        assert_eq!(ledger.server_of("3", &bob), None);
    }
}
