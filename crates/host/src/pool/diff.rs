//! Computes the difference between two pools.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Pool;
use super::tool::Tool;

/// The difference between two pools, each list sorted by exposed name.
#[derive(Debug, Clone, Default)]
pub struct PoolDiff {
    /// Tools with new names.
    pub added: Vec<Arc<Tool>>,
    /// Tools whose names are gone.
    pub removed: Vec<Arc<Tool>>,
    /// Tools whose definitions changed.
    pub changed: Vec<ChangedTool>,
}

/// A tool before and after a change.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChangedTool {
    /// The old definition.
    pub before: Arc<Tool>,
    /// The new definition.
    pub after: Arc<Tool>,
}

impl PoolDiff {
    /// Whether both pools are equal.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// Compares two pools. A name that now belongs to another tool counts as removed and added.
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
