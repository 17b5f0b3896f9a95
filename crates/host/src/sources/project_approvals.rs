//! Stores the user's decisions on project servers.

use std::path::Path;

use switchboard_config::approvals::{ApprovalDecision, Approvals};
use switchboard_config::edit::EditError;
use switchboard_config::source::path_key;

use crate::sources::atomic_file;
use crate::sources::atomic_file::{FileChangeError, Privacy};
use crate::sources::paths::Paths;

/// Records decisions, each on a server of a project file. Fails if the store is damaged, because it may hold
/// rejections.
pub fn decide(
    paths: &Paths,
    decisions: &[(&Path, &str, ApprovalDecision)],
) -> Result<(), FileChangeError> {
    if decisions.is_empty() {
        return Ok(());
    }
    atomic_file::change(&paths.approvals(), Privacy::Owner, |text| {
        let mut approvals = parse(text)?;
        for (file, server, decision) in decisions {
            approvals.record(&path_key(file), server, decision.clone());
        }
        Ok(approvals.to_text())
    })?;
    Ok(())
}

/// Removes the decisions on the servers of these project files and returns how many there were. Replaces a damaged
/// store.
pub fn forget(paths: &Paths, files: &[&Path]) -> Result<usize, FileChangeError> {
    let mut forgotten = 0;
    atomic_file::change(&paths.approvals(), Privacy::Owner, |text| {
        let mut approvals = parse(text).unwrap_or_default();
        forgotten = files.iter().map(|file| approvals.forget(&path_key(file))).sum();
        Ok(approvals.to_text())
    })?;
    Ok(forgotten)
}

fn parse(text: &str) -> Result<Approvals, EditError> {
    if text.is_empty() {
        return Ok(Approvals::default());
    }
    Ok(Approvals::parse(text)?)
}
