//! Which task is whose: the server that works on it, and the principal that began it. Of many, the oldest are forgotten.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use memchr::memmem::Finder;
use serde::Deserialize;
use switchboard_wire::jsonrpc::message::{LazyFinder, Payload};
use tokio::sync::watch;

/// How many tasks are known at once.
const MAX_TASKS: usize = 100_000;
/// The longest name of a task.
const MAX_TASK_ID_LEN: usize = 1024;

/// The tasks. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskOwners(watch::Sender<OwnersByTask>);

#[derive(Debug, Default)]
struct OwnersByTask {
    by_task: HashMap<(Arc<str>, String), Arc<str>>,
    order: VecDeque<(Arc<str>, String)>,
}

impl TaskOwners {
    /// Notes a task, where a result is the beginning of one. Looking for the word first keeps large results unread.
    pub(crate) fn record(&self, result: &Payload, server: &str, principal: &Arc<str>) {
        static MENTIONED: LazyFinder = LazyFinder::new(|| Finder::new(b"\"taskId\""));
        if !result.contains(&MENTIONED) {
            return;
        }
        let Some(task) = task_id(result).filter(|it| it.len() <= MAX_TASK_ID_LEN) else { return };
        self.0.send_modify(|entries| {
            let key = (principal.clone(), task);
            // Of two servers that give out one name, the first has it.
            if entries.by_task.contains_key(&key) {
                return;
            }
            entries.by_task.insert(key.clone(), server.into());
            entries.order.push_back(key);
            if entries.order.len() > MAX_TASKS
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
fn task_id(result: &Payload) -> Option<String> {
    #[derive(Deserialize)]
    struct Task {
        #[serde(rename = "taskId")]
        id: String,
    }
    #[derive(Deserialize)]
    struct CreateTaskResult {
        #[serde(rename = "taskId", default)]
        id: Option<String>,
        #[serde(default)]
        task: Option<Task>,
    }
    let parsed: CreateTaskResult = result.decode().ok()?;
    parsed.id.or(parsed.task.map(|it| it.id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_is_its_principals_alone() {
        let owners = TaskOwners::default();
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
        let result = |json| Payload::encode(&json).expect("JSON");
        owners.record(&result(json!({"resultType": "task", "taskId": "1"})), "s", &ada);
        owners.record(&result(json!({"task": {"taskId": "2"}})), "s", &bob);
        owners.record(&result(json!({"task": {"taskId": "1"}})), "other", &bob);
        assert_eq!(owners.server_of("1", &ada).as_deref(), Some("s"));
        assert_eq!(owners.server_of("1", &bob).as_deref(), Some("other"));
        assert_eq!(owners.server_of("2", &ada), None);
        assert_eq!(owners.server_of("2", &bob).as_deref(), Some("s"));
        assert_eq!(owners.server_of("3", &bob), None);
    }
}
