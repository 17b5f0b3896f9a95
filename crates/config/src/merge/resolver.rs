//! Decides the state of each definition: first alone, then against the others of the same name.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::effective::{Exclusion, PendingReason, ResolvedServer, ServerState};
use super::expansion::{SecretRule, expansion_problems};
use super::plugin_context::PluginContext;
use super::{ScopeFilter, SdkEntries};
use crate::approvals::{ApprovalStatus, Approvals, ApprovedServer};
use crate::entry::{ProgramBinding, ServerSpec, Signature, StartFolder, TransportKind};
use crate::file::ServerDefinition;
use crate::policy::{Policy, PolicyContext, PolicyDecision};
use crate::problem::{Problem, Severity};
use crate::program::{ProgramFinder, server_program};
use crate::scope::Scope;
use crate::settings::DisabledServer;
use crate::source::{Origin, Source, SourceKind, path_key};
use crate::template::Environment;

/// The folder of a plugin's manifest, if it is not in the plugin's own.
const PLUGIN_MANIFEST_FOLDER: &str = ".claude-plugin";

/// Decides the state of definitions.
pub(super) struct Resolver {
    pub(super) policy: Policy,
    pub(super) disabled: Vec<DisabledServer>,
    pub(super) approvals: Approvals,
    pub(super) environment: Environment,
    pub(super) programs: Option<Arc<dyn ProgramFinder>>,
    pub(super) project_root: Option<PathBuf>,
    pub(super) exclusive_source: Option<Arc<Source>>,
    pub(super) scope_filter: ScopeFilter,
    pub(super) sdk_entries: SdkEntries,
}

impl Resolver {
    /// Expands a definition and decides its state as if it were the only one.
    pub(super) fn resolve_definition(
        &self,
        definition: ServerDefinition,
        environment: &Environment,
        plugin: Option<&PluginContext<'_>>,
    ) -> ResolvedServer {
        let is_bundle_disabled = definition.is_bundle_disabled();
        let ServerDefinition {
            name,
            server_name,
            origin,
            entry,
            bundle,
            needs_config,
            rules,
            mut problems,
            ..
        } = definition;
        let mut missing = BTreeSet::new();
        let neutral = match (plugin, &entry, &server_name) {
            (Some(plugin), Some(entry), Ok(name)) => Some(plugin.fingerprint(entry, name)),
            (None, _, _) | (_, None, _) | (_, _, Err(_)) => None,
        };
        let spec = match (&entry, server_name) {
            (Some(entry), Ok(name)) => {
                let spec = entry.expand(name, environment, &mut missing);
                let base_folder = self.base_folder(&origin);
                Some(ServerSpec { base_folder, start_folder: start_folder(origin.scope()), ..spec })
            }
            (None, _) | (_, Err(_)) => None,
        };
        if let (Some(entry), Some(spec)) = (&entry, &spec) {
            let rule = match plugin {
                // They were looked for before the user's options were filled in.
                Some(_) => SecretRule::Checked,
                None => SecretRule::OfScope(origin.scope()),
            };
            let found = expansion_problems(entry, spec, &missing, rule);
            problems.extend(found.into_iter().map(|(key, kind)| {
                let server = Some(name.clone());
                Problem { origin: origin.clone(), server, key, kind, excerpt: None }
            }));
        }
        let failed = problems.iter().any(|it| it.severity() == Severity::Error);
        let spec = spec.filter(|_| !failed);
        let program = match (&spec, &self.programs) {
            (Some(spec), Some(finder)) => server_program(spec, environment, finder.as_ref()),
            (None, _) | (_, None) => None,
        };
        let context = PolicyContext {
            scope: origin.scope(),
            environment: &self.environment,
            programs: self.programs.as_deref(),
            program: program.as_deref(),
        };
        let policy = spec.as_ref().map(|spec| self.policy.evaluate(spec, &context));
        let is_approved_plugin = plugin.is_some_and(|it| it.origin.approval_key.is_some());
        let binding_scope = if is_approved_plugin { Scope::Project } else { origin.scope() };
        let spec = spec.map(|spec| match self.binds_program(&spec, binding_scope) {
            true => ServerSpec { program: ProgramBinding::of(program.as_deref()), ..spec },
            false => spec,
        });
        let fingerprint = spec.as_ref().map(ServerSpec::fingerprint);
        let approval = fingerprint.clone().map(|fingerprint| ApprovedServer {
            fingerprint: neutral.unwrap_or(fingerprint),
            program: program.as_deref().map(|program| match plugin {
                Some(plugin) => plugin.program_key(program),
                None => path_key(program),
            }),
        });
        let approval_key = match (plugin, origin.scope()) {
            (Some(plugin), _) => plugin.origin.approval_key.clone(),
            (None, Scope::Project) => Some(origin.source.key()),
            (
                None,
                Scope::Enterprise
                | Scope::Dynamic
                | Scope::Connectors
                | Scope::Local
                | Scope::User
                | Scope::Plugin,
            ) => None,
        };
        let mut server = ResolvedServer {
            name,
            origin,
            entry,
            fingerprint,
            signature: spec.as_ref().and_then(Signature::of),
            rules,
            policy,
            program,
            spec,
            bundle,
            plugin: plugin.map(|it| it.origin.id.clone()),
            approval_key,
            approval,
            state: ServerState::Ready,
            problems,
        };
        let lacks_options = !failed && !needs_config.is_empty();
        let state = self.state(&server);
        server.state = if lacks_options && matches!(state, ServerState::Invalid) {
            match (is_bundle_disabled, self.disabled_by(&server)) {
                (true, _) => ServerState::Disabled(server.origin.clone()),
                (false, Some(origin)) => ServerState::Disabled(origin),
                (false, None) => ServerState::NeedsConfig(needs_config),
            }
        } else {
            state
        };
        server
    }

    fn state(&self, server: &ResolvedServer) -> ServerState {
        if let Some(why) = self.exclusion(server) {
            return ServerState::Excluded(why);
        }
        let (Some(policy), Some(approvable)) = (&server.policy, server.approvable()) else {
            return ServerState::Invalid;
        };
        let status = self.approval_status(server, &approvable);
        if status == ApprovalStatus::Rejected {
            return ServerState::Rejected;
        }
        if let PolicyDecision::Refused(refusal) = policy {
            return ServerState::Refused(refusal.clone());
        }
        if let Some(origin) = self.disabled_by(server) {
            return ServerState::Disabled(origin);
        }
        match status {
            ApprovalStatus::New => ServerState::Pending(PendingReason::New),
            ApprovalStatus::Changed => ServerState::Pending(PendingReason::Changed),
            ApprovalStatus::ProgramChanged => ServerState::Pending(PendingReason::ProgramChanged),
            ApprovalStatus::Approved | ApprovalStatus::Rejected => ServerState::Ready,
        }
    }

    fn exclusion(&self, server: &ResolvedServer) -> Option<Exclusion> {
        let scope = server.scope();
        if let Some(source) = &self.exclusive_source {
            let counts = scope == Scope::Enterprise || self.is_embedded(server);
            return (!counts).then(|| Exclusion::ManagedFile(source.clone()));
        }
        let counts = self.scope_filter == ScopeFilter::All || scope == Scope::Dynamic;
        (!counts).then_some(Exclusion::Strict)
    }

    /// Did an embedding program itself register the server?
    fn is_embedded(&self, server: &ResolvedServer) -> bool {
        let is_sdk =
            server.entry.as_ref().is_some_and(|it| it.transport.kind() == TransportKind::Sdk);
        let is_of_program = match self.sdk_entries {
            SdkEntries::OfProgramLayers => {
                matches!(server.origin.source.kind, SourceKind::Program(_))
            }
            SdkEntries::OfCommandLineToo => server.scope() == Scope::Dynamic,
        };
        is_sdk && is_of_program
    }

    /// Only the servers of a project, and of plugins that are not a folder of the user, need an approval.
    fn approval_status(&self, server: &ResolvedServer, current: &ApprovedServer) -> ApprovalStatus {
        match &server.approval_key {
            Some(key) => self.approvals.status(key, &server.name, current),
            None => ApprovalStatus::Approved,
        }
    }

    /// Returns the folder that relative paths of a definition start at: the folder of the file, so that another working
    /// folder does not lead to another program. The file of the local scope is in the user's own folders, so its
    /// paths start at the project. Text that is in no file has no other folder than the working folder.
    fn base_folder(&self, origin: &Origin) -> Option<PathBuf> {
        // The parent of a bare file name is empty, which stands for the working folder.
        let is_named = |it: &&Path| !it.as_os_str().is_empty();
        let folder = || origin.source.path().and_then(Path::parent).filter(is_named);
        match origin.scope() {
            Scope::Local => self.project_root.clone(),
            Scope::Project | Scope::Enterprise | Scope::User => folder().map(Path::to_owned),
            // A pipe is in no folder of the user.
            Scope::Dynamic => folder().filter(|it| !it.starts_with("/dev")).map(Path::to_owned),
            // The manifest may be in a folder of its own inside the plugin's.
            Scope::Plugin => match folder() {
                Some(folder) if folder.ends_with(PLUGIN_MANIFEST_FOLDER) => {
                    folder.parent().map(Path::to_owned)
                }
                Some(folder) => Some(folder.to_owned()),
                None => None,
            },
            Scope::Connectors => None,
        }
    }

    /// Is the decision about the server one about the file that its command runs?
    fn binds_program(&self, spec: &ServerSpec, scope: Scope) -> bool {
        let runs_program = spec.transport.kind() == TransportKind::Stdio;
        let is_decided = match scope {
            Scope::Project => true,
            // The programs of the administrator's own file are compared with no rule.
            Scope::Enterprise => false,
            Scope::Dynamic | Scope::Connectors | Scope::Local | Scope::User | Scope::Plugin => {
                self.policy.binds_programs()
            }
        };
        runs_program && is_decided && self.programs.is_some()
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

/// Returns the folder that a program starts in. What is defined for one project starts in it; the other scopes apply in
/// every folder, and their programs work in the one that the user is in.
fn start_folder(scope: Scope) -> StartFolder {
    match scope {
        Scope::Project | Scope::Local => StartFolder::BaseFolder,
        Scope::Enterprise | Scope::Dynamic | Scope::Connectors | Scope::User | Scope::Plugin => {
            StartFolder::WorkingFolder
        }
    }
}
