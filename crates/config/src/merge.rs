//! From layers to servers: which definition of a name wins, what the policy says of it, whether a person
//! approved it, and which are the same server under two names. Every loser stays visible with its reason.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::approvals::{ApprovalStatus, Approvals};
use crate::entry::server::{Fingerprint, ServerEntry, ServerSpec};
use crate::entry::signature::Signature;
use crate::file::entry_decoder;
use crate::file::layer::{Layer, ServerDefinition};
use crate::policy::{Policy, PolicyDecision, Refusal};
use crate::problem::{Problem, ProblemKind, Severity};
use crate::scope::Scope;
use crate::settings::DisabledServer;
use crate::source::{Origin, Source};
use crate::template::{Environment, TextSegment};

/// Everything that decides what runs.
#[derive(Debug, Clone, Default)]
pub struct MergeInputs {
    /// What was read; of two layers of one scope the earlier wins.
    pub layers: Vec<Layer>,
    /// Allow and deny lists.
    pub policy: Policy,
    /// Servers switched off in settings.
    pub disabled: Vec<DisabledServer>,
    /// A person's decisions on project servers.
    pub approvals: Approvals,
    /// The variables that entries may name.
    pub environment: Environment,
    /// The managed server file, where one exists: then it is the only source.
    pub exclusive_source: Option<Arc<Source>>,
    /// Whether every scope counts.
    pub scope_filter: ScopeFilter,
}

/// Which scopes count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScopeFilter {
    /// All of them.
    #[default]
    All,
    /// `--strict-mcp-config`: the dynamic one alone.
    DynamicOnly,
}

/// The result: every server of every layer, and what was wrong with the sources.
#[derive(Debug, Clone)]
pub struct EffectiveConfig {
    /// Servers by name, winners before losers of the same name.
    pub servers: Vec<ResolvedServer>,
    /// Problems that belong to no server.
    pub problems: Vec<Problem>,
    /// The managed server file, where it has exclusive control.
    pub exclusive_source: Option<Arc<Source>>,
}

/// One definition of a server and what became of it.
#[derive(Debug, Clone)]
pub struct ResolvedServer {
    /// Its name.
    pub name: String,
    /// Where it is defined.
    pub origin: Origin,
    /// The entry as written, unless it is invalid.
    pub entry: Option<ServerEntry>,
    /// The entry with its variables in, unless it is invalid.
    pub spec: Option<ServerSpec>,
    /// The hash that approvals bind to.
    pub fingerprint: Option<Fingerprint>,
    /// What it is by content.
    pub signature: Option<Signature>,
    /// What became of it.
    pub state: ServerState,
    /// What is wrong or doubtful about it.
    pub problems: Vec<Problem>,
}

/// What became of a definition.
#[derive(Debug, Clone)]
pub enum ServerState {
    /// It may start.
    Ready,
    /// A project's server that nobody approved as it is now.
    Pending(PendingReason),
    /// A project's server that somebody said no to.
    Rejected,
    /// The policy refuses it.
    Refused(Refusal),
    /// Switched off, and where.
    Disabled(Origin),
    /// A higher scope defines the same name.
    Shadowed {
        /// The definition that wins.
        by: Origin,
    },
    /// The same server is there under another name.
    Duplicate {
        /// The name it has there.
        of: String,
        /// Where that one is defined.
        by: Origin,
    },
    /// Its scope does not count.
    Excluded(Exclusion),
    /// Something in the entry is an error.
    Invalid,
}

/// Why a project's server waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingReason {
    /// Nobody decided yet.
    New,
    /// It changed since it was approved.
    Changed,
}

/// Why a whole scope does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exclusion {
    /// A managed server file has exclusive control.
    ManagedFile(Arc<Source>),
    /// `--strict-mcp-config`
    Strict,
}

impl ResolvedServer {
    /// The scope it came from.
    pub fn scope(&self) -> Scope {
        self.origin.scope()
    }

    /// Did it win its name, or is it only shown to explain?
    pub fn is_selected(&self) -> bool {
        match self.state {
            ServerState::Ready
            | ServerState::Pending(_)
            | ServerState::Refused(_)
            | ServerState::Disabled(_)
            | ServerState::Invalid => true,
            ServerState::Rejected
            | ServerState::Shadowed { .. }
            | ServerState::Duplicate { .. }
            | ServerState::Excluded(_) => false,
        }
    }

    /// May it start?
    pub fn is_ready(&self) -> bool {
        matches!(self.state, ServerState::Ready)
    }

    /// May its tools run without asking? Only where somebody with a say in it said so.
    pub fn is_trusted(&self) -> bool {
        let asked = self.entry.as_ref().is_some_and(|entry| entry.common.trust);
        asked && self.is_ready()
    }
}

impl EffectiveConfig {
    /// The definition that won a name.
    pub fn winner(&self, name: &str) -> Option<&ResolvedServer> {
        let mut defined = self.servers.iter().filter(|it| it.name == name && it.is_selected());
        defined
            .clone()
            .find(|it| !matches!(it.state, ServerState::Invalid))
            .or_else(|| defined.next())
    }
}

/// Decides what becomes of every definition.
pub fn resolve(inputs: MergeInputs) -> EffectiveConfig {
    let MergeInputs {
        layers,
        policy,
        disabled,
        approvals,
        environment,
        exclusive_source,
        scope_filter,
    } = inputs;
    let resolver =
        Resolver { policy, disabled, approvals, environment, exclusive_source, scope_filter };
    let mut problems = Vec::new();
    let mut servers = Vec::new();
    for layer in layers {
        problems.extend(layer.problems);
        let mut environment = Cow::Borrowed(&resolver.environment);
        for (name, value) in &layer.variables {
            environment = Cow::Owned(environment.with(name, value));
        }
        let resolved =
            layer.definitions.into_iter().map(|it| resolver.resolve_definition(it, &environment));
        servers.extend(resolved);
    }
    servers.sort_by(|a, b| (&a.name, a.scope()).cmp(&(&b.name, b.scope())));
    resolver.mark_shadowed(&mut servers);
    mark_duplicates(&mut servers);
    EffectiveConfig { servers, problems, exclusive_source: resolver.exclusive_source }
}

struct Resolver {
    policy: Policy,
    disabled: Vec<DisabledServer>,
    approvals: Approvals,
    environment: Environment,
    exclusive_source: Option<Arc<Source>>,
    scope_filter: ScopeFilter,
}

impl Resolver {
    /// Puts the variables in and judges the definition as if it were alone.
    fn resolve_definition(
        &self,
        definition: ServerDefinition,
        environment: &Environment,
    ) -> ResolvedServer {
        let ServerDefinition { name, server_name, origin, entry, mut problems } =
            definition;
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
        let is_sdk = server
            .entry
            .as_ref()
            .is_some_and(|it| it.transport.kind() == crate::entry::server::TransportKind::Sdk);
        if let Some(source) = &self.exclusive_source {
            let counts = scope == Scope::Enterprise || is_sdk;
            return (!counts).then(|| Exclusion::ManagedFile(source.clone()));
        }
        let counts = self.scope_filter == ScopeFilter::All || scope == Scope::Dynamic;
        (!counts).then_some(Exclusion::Strict)
    }

    /// Only a project's servers need a person's word.
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

    /// Under a managed server file, people's switches do not count either.
    fn disabled_by(&self, server: &ResolvedServer) -> Option<Origin> {
        if server.entry.as_ref().is_some_and(|entry| entry.disabled) {
            return Some(server.origin.clone());
        }
        if self.exclusive_source.is_some() {
            return None;
        }
        self.disabled.iter().find(|it| it.name == server.name).map(|it| it.origin.clone())
    }

    /// Of several definitions of one name the highest wins whole. What a person rejected, what makes no
    /// sense and what does not count wins nothing.
    fn mark_shadowed(&self, servers: &mut [ResolvedServer]) {
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

/// What comes to light only when the variables are in.
fn expansion_problems(
    entry: &ServerEntry,
    spec: &ServerSpec,
    missing: &BTreeSet<String>,
    scope: Scope,
) -> Vec<(Option<String>, ProblemKind)> {
    let mut found: Vec<(Option<String>, ProblemKind)> =
        missing.iter().map(|name| (None, ProblemKind::MissingVariable(name.clone()))).collect();
    if !scope.may_name_secrets() && entry.templates().iter().any(|text| !text.secrets().is_empty())
    {
        found.push((None, ProblemKind::SecretNotAllowed(scope)));
    }
    if let Some(url) = spec.transport.url() {
        let kind = spec.transport.kind();
        let text = url.to_unresolved_string();
        let whole = missing.is_empty() && !entry_decoder::is_valid_url(kind, &text);
        if whole || has_secret_host(url.segments()) {
            let schemes = kind.schemes_text();
            found.push((Some("url".to_owned()), ProblemKind::InvalidUrl { schemes }));
        }
    }
    let metadata = spec.transport.oauth().and_then(|it| it.auth_server_metadata_url.as_ref());
    if metadata.is_some_and(|it| {
        missing.is_empty() && !entry_decoder::is_https_url(&it.to_unresolved_string())
    }) {
        let key = "oauth.authServerMetadataUrl".to_owned();
        found.push((Some(key), ProblemKind::InvalidUrl { schemes: "`https://`" }));
    }
    found
}

/// A named secret may be part of a URL's path or query, never of its host: the policy must see where it leads.
fn has_secret_host(pieces: &[TextSegment]) -> bool {
    let is_secret = |piece: &TextSegment| matches!(piece, TextSegment::Secret(_));
    if !pieces.iter().any(is_secret) {
        return false;
    }
    let Some(TextSegment::Plain(front)) = pieces.first() else { return true };
    let Some((_, rest)) = front.split_once("://") else { return true };
    !rest.contains(['/', '?', '#'])
}

/// The same content under two names: what a person configured beats what a plugin or an account brought along.
fn mark_duplicates(servers: &mut [ResolvedServer]) {
    let mut manual: BTreeMap<Signature, (String, Origin)> = BTreeMap::new();
    let mut plugins: BTreeMap<Signature, (String, Origin)> = BTreeMap::new();
    let ready = |server: &ResolvedServer| matches!(server.state, ServerState::Ready);
    for server in servers.iter().filter(|it| ready(it) && it.scope().is_manual()) {
        if let Some(signature) = &server.signature {
            let here = (server.name.clone(), server.origin.clone());
            manual.entry(signature.clone()).or_insert(here);
        }
    }
    for server in servers.iter_mut().filter(|it| ready(it) && !it.scope().is_manual()) {
        let Some(signature) = server.signature.clone() else { continue };
        let original = manual
            .get(&signature)
            .or_else(|| plugins.get(&signature).filter(|_| server.scope() == Scope::Plugin));
        if let Some((of, by)) = original {
            server.state = ServerState::Duplicate { of: of.clone(), by: by.clone() };
        } else if server.scope() == Scope::Plugin {
            plugins.insert(signature, (server.name.clone(), server.origin.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approvals::ApprovalDecision;
    use crate::file::layer::{FileShape, Naming};
    use crate::policy::Authority;
    use crate::settings::Settings;

    /// A scenario: sources by scope (`project:near` names the file), each with the text under `mcpServers`.
    #[derive(Default)]
    struct Scenario {
        inputs: MergeInputs,
    }

    impl Scenario {
        fn with(mut self, place: &str, servers: &str) -> Scenario {
            let (scope, file) = place.split_once(':').unwrap_or((place, place));
            let scope = Scope::parse(scope).expect("a scope");
            let naming = if scope == Scope::Plugin { Naming::Plugin(file) } else { Naming::Plain };
            let text = format!("{{\"mcpServers\": {{{servers}}}}}");
            let source = Source::file(scope, file);
            if scope == Scope::Enterprise {
                self.inputs.exclusive_source = Some(source.clone());
            }
            self.inputs.layers.push(Layer::read(&source, &text, naming, FileShape::Wrapped));
            self
        }

        fn settings(mut self, text: &str) -> Scenario {
            let source = Source::file(Scope::User, "settings");
            let settings = Settings::read(&source, text, Authority::User);
            self.inputs.policy = settings.policy;
            self.inputs.disabled = settings.disabled;
            self
        }

        /// Approves what the project file `file` defines now.
        fn approve(mut self, file: &str, name: &str) -> Scenario {
            let source = Source::file(Scope::Project, file).to_string();
            let decision = self.fingerprint(file, name).map(ApprovalDecision::Approved);
            self.inputs.approvals.record(&source, name, decision.expect("it is defined"));
            self
        }

        fn fingerprint(&self, file: &str, name: &str) -> Option<Fingerprint> {
            let layer = self.inputs.layers.iter().find(|it| it.source.to_string() == file)?;
            let definition = layer.definitions.iter().find(|it| it.name == name)?;
            let server_name = definition.server_name.clone().ok()?;
            let entry = definition.entry.as_ref()?;
            Some(
                entry
                    .expand(server_name, &self.inputs.environment, &mut BTreeSet::new())
                    .fingerprint(),
            )
        }

        fn set(mut self, name: &str, value: &str) -> Scenario {
            self.inputs.environment = self.inputs.environment.with(name, value);
            self
        }

        #[track_caller]
        fn check(self, expected: &[&str]) {
            let effective = resolve(self.inputs);
            let line = |server: &ResolvedServer| {
                let state = match &server.state {
                    ServerState::Ready => "ready".to_owned(),
                    ServerState::Pending(why) => format!("pending {why:?}"),
                    ServerState::Rejected => "rejected".to_owned(),
                    ServerState::Refused(_) => "refused".to_owned(),
                    ServerState::Disabled(by) => format!("disabled by {}", by.source),
                    ServerState::Shadowed { by } => format!("shadowed by {}", by.source),
                    ServerState::Duplicate { of, .. } => format!("duplicate of {of}"),
                    ServerState::Excluded(Exclusion::ManagedFile(_)) => "locked out".to_owned(),
                    ServerState::Excluded(Exclusion::Strict) => "not dynamic".to_owned(),
                    ServerState::Invalid => "invalid".to_owned(),
                };
                format!("{} {} {state}", server.name, server.origin.source)
            };
            assert_eq!(effective.servers.iter().map(line).collect::<Vec<_>>(), expected);
        }
    }

    const X: &str = r#""s": {"command": "x"}"#;

    #[test]
    fn the_highest_scope_wins_whole_and_losers_stay_visible() {
        Scenario::default()
            .with("user", X)
            .with("project:p", X)
            .with("local", X)
            .with("dynamic", r#""s": {"command": "x", "disabled": true}"#)
            .check(&[
                "s dynamic disabled by dynamic",
                "s p shadowed by dynamic",
                "s local shadowed by dynamic",
                "s user shadowed by dynamic",
            ]);
    }

    #[test]
    fn project_beats_local_beats_user_and_the_nearest_project_file_wins() {
        Scenario::default()
            .with("project:near", X)
            .with("project:far", X)
            .with("local", X)
            .with("user", X)
            .approve("near", "s")
            .check(&[
                "s near ready",
                "s far shadowed by near",
                "s local shadowed by near",
                "s user shadowed by near",
            ]);
    }

    #[test]
    fn a_bad_entry_never_hides_a_good_one_of_the_same_name() {
        Scenario::default()
            .with("local", r#""s": {"command": 1}"#)
            .with("user", X)
            .check(&["s local invalid", "s user ready"]);
    }

    #[test]
    fn a_managed_server_file_is_the_only_source_except_for_the_embedding_program() {
        Scenario::default()
            .with("enterprise", r#""corp": {"command": "c"}"#)
            .with("dynamic", r#""tool": {"type": "sdk"}, "own": {"command": "x"}"#)
            .with("user", X)
            .settings(r#"{"disabledMcpServers": ["corp"]}"#)
            .check(&[
                "corp enterprise ready",
                "own dynamic locked out",
                "s user locked out",
                "tool dynamic ready",
            ]);
    }

    #[test]
    fn strict_leaves_the_dynamic_scope_alone_and_never_lifts_the_lock() {
        let mut strict =
            Scenario::default().with("dynamic", X).with("user", r#""u": {"command": "x"}"#);
        strict.inputs.scope_filter = ScopeFilter::DynamicOnly;
        strict.check(&["s dynamic ready", "u user not dynamic"]);
        let mut locked = Scenario::default()
            .with("enterprise", r#""corp": {"command": "c"}"#)
            .with("dynamic", X);
        locked.inputs.scope_filter = ScopeFilter::DynamicOnly;
        locked.check(&["corp enterprise ready", "s dynamic locked out"]);
    }

    #[test]
    fn a_project_server_waits_for_a_person_and_again_after_any_change() {
        let scenario =
            |entry: &str| Scenario::default().with("project:p", &format!("\"s\": {entry}"));
        let first = r#"{"command": "x", "args": ["a"], "env": {"K": "$V"}}"#;
        scenario(first).check(&["s p pending New"]);
        scenario(first).approve("p", "s").check(&["s p ready"]);
        let approvals = scenario(first).set("V", "1").approve("p", "s").inputs.approvals;
        for changed in [
            r#"{"command": "x", "args": ["b"], "env": {"K": "$V"}}"#,
            r#"{"command": "x", "args": ["a", ""], "env": {"K": "$V"}}"#,
            r#"{"command": "y", "args": ["a"], "env": {"K": "$V"}}"#,
            r#"{"command": "x", "args": ["a"], "env": {"K": "$V "}}"#,
            r#"{"command": "x", "args": ["a"], "env": {"K": "$V", "L": ""}}"#,
            r#"{"command": "x", "args": ["a"], "env": {"K": "$V"}, "cwd": "/"}"#,
            r#"{"command": "x", "args": ["a"], "env": {"K": "$V"}, "trust": true}"#,
            r#"{"command": "x", "args": ["a"], "env": {"K": "$V"}, "sandbox": "off"}"#,
            r#"{"type": "http", "url": "https://x/"}"#,
        ] {
            let mut scenario = scenario(changed).set("V", "1");
            scenario.inputs.approvals = approvals.clone();
            scenario.check(&["s p pending Changed"]);
        }
        let mut other_value = scenario(first).set("V", "2");
        other_value.inputs.approvals = approvals.clone();
        other_value.check(&["s p pending Changed"]);
        let mut described =
            scenario(r#"{"command": "x", "args": ["a"], "env": {"K": "$V"}, "description": "d"}"#)
                .set("V", "1");
        described.inputs.approvals = approvals;
        described.check(&["s p ready"]);
    }

    #[test]
    fn remote_entries_are_bound_to_url_headers_and_sign_in() {
        let scenario =
            |entry: &str| Scenario::default().with("project:p", &format!("\"s\": {entry}"));
        let first = r#"{"type": "http", "url": "https://h/a", "headers": {"A": "b"}}"#;
        let approvals = scenario(first).approve("p", "s").inputs.approvals;
        for changed in [
            r#"{"type": "http", "url": "https://h/b", "headers": {"A": "b"}}"#,
            r#"{"type": "http", "url": "https://h/a", "headers": {"A": "c"}}"#,
            r#"{"type": "http", "url": "https://h/a", "headers": {"A": "b"}, "headersHelper": "id"}"#,
            r#"{"type": "http", "url": "https://h/a", "headers": {"A": "b"}, "oauth": {"clientId": "x"}}"#,
            r#"{"type": "sse", "url": "https://h/a", "headers": {"A": "b"}}"#,
        ] {
            let mut scenario = scenario(changed);
            scenario.inputs.approvals = approvals.clone();
            scenario.check(&["s p pending Changed"]);
        }
    }

    #[test]
    fn a_rejected_project_server_gives_the_name_back() {
        let mut scenario = Scenario::default().with("project:p", X).with("user", X);
        scenario.inputs.approvals.record("p", "s", ApprovalDecision::Rejected);
        scenario.check(&["s p rejected", "s user ready"]);
    }

    #[test]
    fn an_approval_in_one_project_file_says_nothing_of_another() {
        let mut scenario = Scenario::default()
            .with("project:p", X)
            .approve("p", "s")
            .with("project:q", r#""t": {"command": "x"}"#);
        let stolen = scenario.fingerprint("p", "s").expect("it is there");
        scenario.inputs.approvals.record("p", "t", ApprovalDecision::Approved(stolen));
        scenario.check(&["s p ready", "t q pending New"]);
    }

    #[test]
    fn switched_off_servers_say_where() {
        Scenario::default()
            .with("user", X)
            .settings(r#"{"disabledMcpServers": ["s"]}"#)
            .check(&["s user disabled by settings"]);
    }

    #[test]
    fn manual_beats_plugin_and_the_first_plugin_beats_the_second() {
        let db = |name: &str| format!(r#""{name}": {{"command": "db", "args": ["1"]}}"#);
        Scenario::default()
            .with("managed:a", &db("one"))
            .with("managed:b", &db("two"))
            .check(&["plugin:a:one a ready", "plugin:b:two b duplicate of plugin:a:one"]);
        Scenario::default()
            .with("managed:a", &db("one"))
            .with("user", &db("mine"))
            .check(&["mine user ready", "plugin:a:one a duplicate of mine"]);
        Scenario::default()
            .with("managed:a", &db("one"))
            .with("project:p", &db("theirs"))
            .check(&["plugin:a:one a ready", "theirs p pending New"]);
        Scenario::default()
            .with("user", &format!("{},{}", db("mine"), db("again")))
            .check(&["again user ready", "mine user ready"]);
    }

    #[test]
    fn an_enabled_manual_server_hides_its_connector_twin_and_a_disabled_one_does_not() {
        let connector = r#""claude.ai Vendor": {"type": "claudeai-proxy", "url": "https://proxy.example/?mcp_url=https%3A%2F%2Fmcp.vendor.example%2F"}"#;
        Scenario::default()
            .with("connectors", connector)
            .with("user", r#""vendor": {"type": "http", "url": "https://mcp.vendor.example"}"#)
            .check(&["claude.ai Vendor connectors duplicate of vendor", "vendor user ready"]);
        Scenario::default()
            .with("connectors", connector)
            .with("user", r#""vendor": {"type": "http", "url": "https://mcp.vendor.example", "disabled": true}"#)
            .check(&["claude.ai Vendor connectors ready", "vendor user disabled by user"]);
    }

    #[test]
    fn policy_reaches_every_scope() {
        Scenario::default()
            .with("dynamic", r#""a": {"command": "x"}"#)
            .with("connectors", r#""b": {"type": "http", "url": "https://x/"}"#)
            .with("project:p", r#""c": {"command": "x"}"#)
            .with("local", r#""d": {"command": "x"}"#)
            .with("user", r#""e": {"command": "x"}"#)
            .with("managed:f", r#""f": {"command": "x"}"#)
            .settings(r#"{"allowedMcpServers": []}"#)
            .check(&[
                "a dynamic refused",
                "b connectors refused",
                "c p refused",
                "d local refused",
                "e user refused",
                "plugin:f:f f refused",
            ]);
        Scenario::default()
            .with("enterprise", X)
            .settings(r#"{"deniedMcpServers": [{"serverName": "s"}]}"#)
            .check(&["s enterprise refused"]);
    }

    #[test]
    fn a_missing_variable_warns_and_blocks_nothing() {
        let effective = resolve(
            Scenario::default()
                .with("user", r#""s": {"type": "http", "url": "https://$HOST/"}"#)
                .inputs,
        );
        let server = &effective.servers[0];
        assert!(matches!(server.state, ServerState::Ready));
        assert_eq!(server.problems[0].kind.to_string(), "the variable HOST is not set");
        Scenario::default()
            .with("user", r#""s": {"type": "http", "url": "$URL"}"#)
            .set("URL", "not a url")
            .check(&["s user invalid"]);
    }

    #[test]
    fn secrets_may_be_named_by_a_persons_own_files_only_and_never_hide_the_host() {
        let header = r#""s": {"type": "http", "url": "https://h/", "headers": {"A": "${cmd:id}"}}"#;
        Scenario::default().with("user", header).check(&["s user ready"]);
        Scenario::default().with("local", header).check(&["s local ready"]);
        for scope in ["project:p", "dynamic", "enterprise", "connectors"] {
            let file = scope.split(':').next_back().expect("a file");
            Scenario::default().with(scope, header).check(&[&format!("s {file} invalid")]);
        }
        let host = r#""s": {"type": "http", "url": "https://${cmd:echo h}/x"}"#;
        Scenario::default().with("user", host).check(&["s user invalid"]);
        let path = r#""s": {"type": "http", "url": "https://h/${file:/t}"}"#;
        Scenario::default().with("user", path).check(&["s user ready"]);
    }

    #[test]
    fn nothing_of_it_prints_a_secret() {
        let scenario = Scenario::default()
            .with(
                "user",
                r#""a": {"command": "canary", "args": ["canary"], "env": {"K": "canary"}, "cwd": "canary", "x": "canary"},
                   "b": {"type": "http", "url": "https://canary/?canary", "headers": {"A": "canary"}, "headersHelper": "canary", "oauth": {"clientId": "canary", "clientSecret": "canary"}}"#,
            )
            .set("V", "canary");
        let before = format!("{:?}", scenario.inputs);
        let after = format!("{:?}", resolve(scenario.inputs));
        assert!(!before.contains("canary") && !after.contains("canary"), "{before}\n{after}");
        assert!(after.contains("\"a\"") && after.contains("\"b\""));
    }

    #[test]
    fn trust_counts_only_where_the_server_may_run() {
        let trusting = r#""s": {"command": "x", "trust": true}"#;
        let trusted = |scenario: Scenario| resolve(scenario.inputs).servers[0].is_trusted();
        assert!(trusted(Scenario::default().with("user", trusting)));
        assert!(!trusted(Scenario::default().with("project:p", trusting)));
        assert!(trusted(Scenario::default().with("project:p", trusting).approve("p", "s")));
    }
}
