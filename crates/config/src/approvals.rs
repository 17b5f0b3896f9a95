//! A user's decisions on the servers of a project. An approval applies to one exact definition.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use thiserror::Error;

use crate::entry::Fingerprint;
use crate::plugin::PluginId;

/// A user's decision on one server of one project file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// The user approved exactly this definition.
    Approved(ApprovedServer),
    /// The user rejected the server, whatever its definition becomes.
    Rejected,
}

/// The fingerprint that the user approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedServer {
    /// The hash of the definition.
    pub fingerprint: Fingerprint,
    /// The file that its command ran then; `None` for a remote server, and for a command that was not installed.
    pub program: Option<String>,
}

/// The approval status of a server with its current definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalStatus {
    /// The current definition is approved.
    Approved,
    /// There is no decision yet.
    New,
    /// A previous definition was approved, but it has changed.
    Changed,
    /// The definition is approved, but its command ran another file then.
    ProgramChanged,
    /// The server is rejected.
    Rejected,
}

/// All decisions of one user, by project file and server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals(BTreeMap<String, BTreeMap<String, ApprovalDecision>>);

/// The approvals file is not valid, so no server counts as approved.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the approvals file is not valid")]
pub struct CorruptApprovals;

impl Approvals {
    /// Returns the status of a server that `file` defines.
    pub fn status(&self, file: &str, server: &str, now: &ApprovedServer) -> ApprovalStatus {
        match self.0.get(file).and_then(|servers| servers.get(server)) {
            None => ApprovalStatus::New,
            Some(ApprovalDecision::Rejected) => ApprovalStatus::Rejected,
            Some(ApprovalDecision::Approved(then)) if then == now => ApprovalStatus::Approved,
            Some(ApprovalDecision::Approved(then)) if then.fingerprint == now.fingerprint => {
                ApprovalStatus::ProgramChanged
            }
            Some(ApprovalDecision::Approved(_)) => ApprovalStatus::Changed,
        }
    }

    /// Records a decision.
    pub fn record(&mut self, file: &str, server: &str, decision: ApprovalDecision) {
        self.0.entry(file.to_owned()).or_default().insert(server.to_owned(), decision);
    }

    /// Removes all decisions on the servers of `file` and returns how many there were.
    pub fn forget(&mut self, file: &str) -> usize {
        self.0.remove(file).map_or(0, |servers| servers.len())
    }

    /// Removes the decisions on the servers of a plugin: those of the user, and those for projects that enable it.
    pub fn forget_plugin(&mut self, id: &PluginId) {
        self.forget(&id.approval_key());
        let prefix = format!("plugin:{}:", id.plugin);
        let of_projects = self.0.iter_mut().filter(|(file, _)| !PluginId::is_approval_key(file));
        for (_, servers) in of_projects {
            servers.retain(|server, _| !server.starts_with(&prefix));
        }
        self.0.retain(|_, servers| !servers.is_empty());
    }

    /// Parses the text of the approvals file.
    pub fn parse(text: &str) -> Result<Approvals, CorruptApprovals> {
        let json: Json = serde_json::from_str(text).map_err(|_| CorruptApprovals)?;
        let files = json.get("projects").and_then(Json::as_object).ok_or(CorruptApprovals)?;
        let mut approvals = Approvals::default();
        for (file, servers) in files {
            for (server, decision) in servers.as_object().ok_or(CorruptApprovals)? {
                approvals.record(file, server, parse_decision(decision)?);
            }
        }
        Ok(approvals)
    }

    /// Returns the text of the approvals file.
    pub fn to_text(&self) -> String {
        let decision = |decision: &ApprovalDecision| match decision {
            ApprovalDecision::Approved(ApprovedServer { fingerprint, program }) => {
                json!({"approved": fingerprint.as_str(), "program": program})
            }
            ApprovalDecision::Rejected => json!("rejected"),
        };
        let mut files = Map::new();
        for (file, servers) in &self.0 {
            let servers: Map<String, Json> =
                servers.iter().map(|(name, it)| (name.clone(), decision(it))).collect();
            files.insert(file.clone(), Json::Object(servers));
        }
        format!("{:#}\n", json!({"version": 1, "projects": files}))
    }
}

fn parse_decision(json: &Json) -> Result<ApprovalDecision, CorruptApprovals> {
    if json.as_str() == Some("rejected") {
        return Ok(ApprovalDecision::Rejected);
    }
    let approved = json.get("approved").and_then(Json::as_str).ok_or(CorruptApprovals)?;
    let program = match json.get("program") {
        None | Some(Json::Null) => None,
        Some(program) => Some(program.as_str().ok_or(CorruptApprovals)?.to_owned()),
    };
    let fingerprint = Fingerprint::from_stored(approved);
    Ok(ApprovalDecision::Approved(ApprovedServer { fingerprint, program }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approved(fingerprint: &str, program: &str) -> ApprovedServer {
        let program = Some(program.to_owned());
        ApprovedServer { fingerprint: Fingerprint::from_stored(fingerprint), program }
    }

    #[test]
    fn an_approval_applies_to_one_definition_and_a_rejection_to_all() {
        let (one, other) = (approved("sha256:1", "/bin/x"), approved("sha256:2", "/bin/x"));
        let mut approvals = Approvals::default();
        assert_eq!(approvals.status("f", "s", &one), ApprovalStatus::New);
        approvals.record("f", "s", ApprovalDecision::Approved(one.clone()));
        assert_eq!(approvals.status("f", "s", &one), ApprovalStatus::Approved);
        assert_eq!(approvals.status("f", "s", &other), ApprovalStatus::Changed);
        assert_eq!(approvals.status("elsewhere", "s", &one), ApprovalStatus::New);
        approvals.record("f", "s", ApprovalDecision::Rejected);
        assert_eq!(approvals.status("f", "s", &other), ApprovalStatus::Rejected);
        assert_eq!(approvals.forget("f"), 1);
        assert_eq!(approvals.status("f", "s", &one), ApprovalStatus::New);
    }

    #[test]
    fn an_approval_applies_to_one_program() {
        let text = |program: &str| {
            format!(r#"{{"projects": {{"f": {{"s": {{"approved": "sha256:1"{program}}}}}}}}}"#)
        };
        let check = |stored: &str, expected| {
            let approvals = Approvals::parse(&text(stored)).expect("it is valid");
            assert_eq!(approvals.status("f", "s", &approved("sha256:1", "/bin/x")), expected);
        };
        check(r#", "program": "/bin/x""#, ApprovalStatus::Approved);
        check(r#", "program": "/opt/x""#, ApprovalStatus::ProgramChanged);
        check(r#", "program": null"#, ApprovalStatus::ProgramChanged);
        // An approval from before programs were recorded.
        check("", ApprovalStatus::ProgramChanged);
    }

    #[test]
    fn the_text_of_approvals_parses_as_the_same_approvals() {
        let mut approvals = Approvals::default();
        approvals.record(
            "/p/.mcp.json",
            "a",
            ApprovalDecision::Approved(approved("sha256:1", "/bin/x")),
        );
        approvals.record("/p/.mcp.json", "b", ApprovalDecision::Rejected);
        assert_eq!(Approvals::parse(&approvals.to_text()), Ok(approvals));
    }

    #[test]
    fn an_invalid_file_approves_nothing() {
        for text in ["", "{}", "{\"projects\": []}", "{\"projects\": {\"f\": {\"s\": true}}}"] {
            assert_eq!(Approvals::parse(text), Err(CorruptApprovals), "{text}");
        }
    }
}
