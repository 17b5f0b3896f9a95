//! Stores the user's decisions on the servers of projects and plugins.

use switchboard_config::approvals::{ApprovalDecision, Approvals};
use switchboard_config::edit::EditError;
use switchboard_config::plugin::PluginId;

use crate::sources::atomic_file;
use crate::sources::atomic_file::{FileChangeError, Privacy};
use crate::sources::paths::Paths;

/// Records decisions, each on a server under the key of its project file or plugin. Fails if the store is damaged, because it may hold
/// rejections.
pub fn decide(
    paths: &Paths,
    decisions: &[(&str, &str, ApprovalDecision)],
) -> Result<(), FileChangeError> {
    if decisions.is_empty() {
        return Ok(());
    }
    atomic_file::change(&paths.approvals(), Privacy::Owner, |text| {
        let mut approvals = parse(text)?;
        for (key, server, decision) in decisions {
            approvals.record(key, server, decision.clone());
        }
        Ok(approvals.to_text())
    })?;
    Ok(())
}

/// Removes the decisions under these keys and returns how many there were. Replaces a damaged
/// store.
pub fn forget(paths: &Paths, keys: &[String]) -> Result<usize, FileChangeError> {
    let mut forgotten = 0;
    atomic_file::change(&paths.approvals(), Privacy::Owner, |text| {
        let mut approvals = parse(text).unwrap_or_default();
        forgotten = keys.iter().map(|key| approvals.forget(key)).sum();
        Ok(approvals.to_text())
    })?;
    Ok(forgotten)
}

/// Removes the decisions on the servers of a plugin. Replaces a damaged store.
pub fn forget_plugin(paths: &Paths, id: &PluginId) -> Result<(), FileChangeError> {
    atomic_file::change(&paths.approvals(), Privacy::Owner, |text| {
        let mut approvals = parse(text).unwrap_or_default();
        approvals.forget_plugin(id);
        Ok(approvals.to_text())
    })?;
    Ok(())
}

fn parse(text: &str) -> Result<Approvals, EditError> {
    if text.is_empty() {
        return Ok(Approvals::default());
    }
    Ok(Approvals::parse(text)?)
}
