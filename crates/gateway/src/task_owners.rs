//! Which server runs a task, and which principal started it. Beyond a limit the oldest tasks are forgotten.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use memchr::memmem::Finder;
use serde::Deserialize;
use switchboard_wire::jsonrpc::message::{LazyFinder, Payload};
use switchboard_wire::shared::Shared;

/// The largest number of tasks.
const MAX_TASKS: usize = 100_000;
/// The longest task id, in bytes.
const MAX_TASK_ID_LEN: usize = 1024;

/// The owners of tasks. Clones share them. Shared state: a task must be recorded before the response with its id is sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskOwners(Shared<OwnersByTask>);

#[derive(Debug, Default)]
struct OwnersByTask {
    by_task: HashMap<(Arc<str>, String), Arc<str>>,
    order: VecDeque<(Arc<str>, String)>,
}

impl TaskOwners {
    /// Records the task that a result starts, if it does, and returns the id of a new one. The search skips parsing of most
    /// large results.
    pub(crate) fn record(
        &self,
        result: &Payload,
        server: &str,
        principal: &Arc<str>,
    ) -> Option<String> {
        static TASK_ID_FINDER: LazyFinder = LazyFinder::new(|| Finder::new(b"\"taskId\""));
        if !result.contains(&TASK_ID_FINDER) {
            return None;
        }
        let task = task_id(result).filter(|it| it.len() <= MAX_TASK_ID_LEN)?;
        self.0.update(|entries| {
            let key = (principal.clone(), task.clone());
            // If two servers use the same id, the first one keeps it.
            if entries.by_task.contains_key(&key) {
                return None;
            }
            entries.by_task.insert(key.clone(), server.into());
            entries.order.push_back(key);
            if entries.order.len() > MAX_TASKS
                && let Some(oldest) = entries.order.pop_front()
            {
                entries.by_task.remove(&oldest);
            }
            Some(task)
        })
    }

    /// The server that runs a task of this principal.
    pub(crate) fn server_of(&self, task: &str, principal: &Arc<str>) -> Option<Arc<str>> {
        let key = (principal.clone(), task.to_owned());
        self.0.read(|entries| entries.by_task.get(&key).cloned())
    }
}

/// The id of the task that a result starts: at the top level in the modern era, in `task` in the legacy one.
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
    fn a_task_belongs_to_the_principal_that_started_it() {
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
