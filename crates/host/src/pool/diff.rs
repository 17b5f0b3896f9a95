//! Tells what changed from one pool to the next, for whoever watches it.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Pool;
use super::tool::Tool;

/// What changed, each list by exposed name.
#[derive(Debug, Clone, Default)]
pub struct PoolDiff {
    /// Names that are new.
    pub added: Vec<Arc<Tool>>,
    /// Names that are gone.
    pub removed: Vec<Arc<Tool>>,
    /// Names that stayed while what they stand for is defined differently.
    pub changed: Vec<ChangedTool>,
}

/// A tool before and after.
#[derive(Debug, Clone)]
pub struct ChangedTool {
    /// As it was.
    pub before: Arc<Tool>,
    /// As it is.
    pub after: Arc<Tool>,
}

impl PoolDiff {
    /// Is all as it was?
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// What changed. A name that came to stand for another tool is removed and added.
pub fn diff(old: &Pool, new: &Pool) -> PoolDiff {
    let mut changes = PoolDiff::default();
    let (mut before, mut after) = (old.tools().iter().peekable(), new.tools().iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return changes,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) => before.exposed_name.cmp(&after.exposed_name),
        };
        let before = if order.is_le() { before.next() } else { None };
        let after = if order.is_ge() { after.next() } else { None };
        match (before, after) {
            (Some(before), Some(after)) => compare(before, after, &mut changes),
            (Some(before), None) => changes.removed.push(before.clone()),
            (None, Some(after)) => changes.added.push(after.clone()),
            (None, None) => return changes,
        }
    }
}

fn compare(before: &Arc<Tool>, after: &Arc<Tool>, changes: &mut PoolDiff) {
    if Arc::ptr_eq(before, after) || before.is_same_definition(after) {
        return;
    }
    let (before, after) = (before.clone(), after.clone());
    if (&before.server, &before.name) == (&after.server, &after.name) {
        changes.changed.push(ChangedTool { before, after });
    } else {
        changes.removed.push(before);
        changes.added.push(after);
    }
}
