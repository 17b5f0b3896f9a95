//! Decides the state of each definition: first alone, then against the others of the same name.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::ScopeFilter;
use super::effective::{Exclusion, PendingReason, ResolvedServer, ServerState};
use super::expansion::expansion_problems;
use crate::approvals::{ApprovalStatus, Approvals};
use crate::entry::{Fingerprint, ServerSpec, Signature, TransportKind};
use crate::file::ServerDefinition;
use crate::policy::{Policy, PolicyDecision};
use crate::problem::{Problem, Severity};
use crate::scope::Scope;
use crate::settings::DisabledServer;
use crate::source::{Origin, Source};
use crate::template::Environment;

/// Decides the state of definitions.
pub(super) struct Resolver {
    pub(super) policy: Policy,
    pub(super) disabled: Vec<DisabledServer>,
    pub(super) approvals: Approvals,
    pub(super) environment: Environment,
    pub(super) exclusive_source: Option<Arc<Source>>,
    pub(super) scope_filter: ScopeFilter,
}

impl Resolver {
    /// Expands a definition and decides its state as if it were the only one.
    pub(super) fn resolve_definition(
        &self,
        definition: ServerDefinition,
        environment: &Environment,
    ) -> ResolvedServer {
        let ServerDefinition { name, server_name, origin, entry, mut problems } = definition;
        let mut missing = BTreeSet::new();
        let spec = match (&entry, server_name) {
            (Some(entry), Ok(name)) => Some(entry.expand(name, environment, &mut missing)),
            (None, _) | (_, Err(_)) => None,
        };
        if let (Some(entry), Some(spec)) = (&entry, &spec) {
            let found = expansion_problems(entry, spec, &missing, origin.scope());
            problems.extend(found.into_iter().map(|(key, kind)| {
                let server = Some(name.clone());
                Problem { origin: origin.clone(), server, key, kind, excerpt: None }
            }));
        }
        let failed = problems.iter().any(|it| it.severity() == Severity::Error);
        let spec = spec.filter(|_| !failed);
        let mut server = ResolvedServer {
            name,
            origin,
            entry,
            fingerprint: spec.as_ref().map(ServerSpec::fingerprint),
            signature: spec.as_ref().and_then(Signature::of),
            spec,
            state: ServerState::Ready,
            problems,
        };
        server.state = self.state(&server);
        server
    }

    fn state(&self, server: &ResolvedServer) -> ServerState {
        if let Some(why) = self.exclusion(server) {
            return ServerState::Excluded(why);
        }
        let (Some(spec), Some(fingerprint)) = (&server.spec, &server.fingerprint) else {
            return ServerState::Invalid;
        };
        let status = self.approval_status(server, fingerprint);
        if status == ApprovalStatus::Rejected {
            return ServerState::Rejected;
        }
        if let PolicyDecision::Refused(refusal) = self.policy.evaluate(spec, &self.environment) {
            return ServerState::Refused(refusal);
        }
        if let Some(origin) = self.disabled_by(server) {
            return ServerState::Disabled(origin);
        }
        match status {
            ApprovalStatus::New => ServerState::Pending(PendingReason::New),
            ApprovalStatus::Changed => ServerState::Pending(PendingReason::Changed),
            ApprovalStatus::Approved | ApprovalStatus::Rejected => ServerState::Ready,
        }
    }

    fn exclusion(&self, server: &ResolvedServer) -> Option<Exclusion> {
        let scope = server.scope();
        let is_sdk =
            server.entry.as_ref().is_some_and(|it| it.transport.kind() == TransportKind::Sdk);
        if let Some(source) = &self.exclusive_source {
            let counts = scope == Scope::Enterprise || is_sdk;
            return (!counts).then(|| Exclusion::ManagedFile(source.clone()));
        }
        let counts = self.scope_filter == ScopeFilter::All || scope == Scope::Dynamic;
        (!counts).then_some(Exclusion::Strict)
    }

    /// Only the servers of a project need an approval.
    fn approval_status(
        &self,
        server: &ResolvedServer,
        fingerprint: &Fingerprint,
    ) -> ApprovalStatus {
        match server.scope() {
            Scope::Project => {
                let file = server.origin.source.key();
                self.approvals.status(&file, &server.name, fingerprint)
            }
            Scope::Enterprise
            | Scope::Dynamic
            | Scope::Connectors
            | Scope::Local
            | Scope::User
            | Scope::Plugin => ApprovalStatus::Approved,
        }
    }

    /// With a managed server file, `disabledMcpServers` of a user does not count.
    fn disabled_by(&self, server: &ResolvedServer) -> Option<Origin> {
        if server.entry.as_ref().is_some_and(|entry| entry.disabled) {
            return Some(server.origin.clone());
        }
        if self.exclusive_source.is_some() {
            return None;
        }
        self.disabled.iter().find(|it| it.name == server.name).map(|it| it.origin.clone())
    }

    /// Of several definitions of one name, the one of the highest scope wins. A definition that is rejected,
    /// invalid or excluded does not win.
    pub(super) fn mark_shadowed(&self, servers: &mut [ResolvedServer]) {
        let mut winners: HashMap<String, Origin> = HashMap::new();
        for server in servers {
            if matches!(
                server.state,
                ServerState::Excluded(_) | ServerState::Rejected | ServerState::Invalid
            ) {
                continue;
            }
            match winners.get(&server.name) {
                Some(winner) => server.state = ServerState::Shadowed { by: winner.clone() },
                None => {
                    winners.insert(server.name.clone(), server.origin.clone());
                }
            }
        }
    }
}
