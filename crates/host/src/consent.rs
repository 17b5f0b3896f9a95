//! Keeps what a person decided on a project's servers.

use std::path::Path;

use switchboard_config::approval::{Approvals, Decision};
use switchboard_config::edit::EditError;

use crate::places::Places;
use crate::store::{self, Privacy, StoreError};

/// Notes decisions, each on a server of a project file. A damaged store is begun anew: it approved nothing anyway.
pub fn decide(places: &Places, decisions: &[(&Path, &str, Decision)]) -> Result<(), StoreError> {
    change(places, |approvals| {
        for (file, server, decision) in decisions {
            approvals.decide(&file.to_string_lossy(), server, decision.clone());
        }
    })
}

/// Forgets what was decided on the servers of these project files; says how many decisions that were.
pub fn forget(places: &Places, files: &[&Path]) -> Result<usize, StoreError> {
    let mut forgotten = 0;
    change(places, |approvals| {
        forgotten = files.iter().map(|file| approvals.forget(&file.to_string_lossy())).sum();
    })?;
    Ok(forgotten)
}

fn change(places: &Places, edit: impl FnOnce(&mut Approvals)) -> Result<(), StoreError> {
    store::change(&places.approvals(), Privacy::Owner, |text| {
        let mut approvals = Approvals::parse(text).unwrap_or_default();
        edit(&mut approvals);
        Ok::<String, EditError>(approvals.to_text())
    })?;
    Ok(())
}
