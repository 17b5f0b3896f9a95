//! Makes the entry of a definition that names a bundle as soon as the bundle's manifest is known, which the caller reads.

use super::bundle_entry::BundleEntry;
use super::layer::ServerDefinition;
use crate::bundle::{
    BundleFolders, BundleHash, BundleInputs, BundleManifest, BundleOutcome, BundlePlatform,
    BundleProblem,
};
use crate::entry::{ServerEntry, StdioConfig, TransportConfig};
use crate::problem::{Problem, ProblemKind};
use crate::user_config::ValueSyntax;

impl ServerDefinition {
    /// The installed bundle that the entry names, if it names one.
    pub fn bundle_hash(&self) -> Option<&BundleHash> {
        self.bundle.as_ref().map(|it| &it.hash)
    }

    /// Makes the entry of a definition that names a bundle, from the manifest of the installed bundle.
    pub fn expand_bundle(
        &mut self,
        manifest: Result<&BundleManifest, BundleProblem>,
        folders: &BundleFolders,
        platform: BundlePlatform,
    ) {
        let Some(bundle) = self.bundle.clone() else { return };
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(problem) => return self.report("bundle", ProblemKind::Bundle(problem)),
        };
        let (given, syntax) = (&bundle.values.0, ValueSyntax::Template);
        let expanded = manifest.expand(&BundleInputs { folders, platform, given, syntax });
        for problem in expanded.problems {
            let key = match problem.key.is_empty() {
                true => "userConfig".to_owned(),
                false => format!("userConfig.{}", problem.key),
            };
            self.report(&key, ProblemKind::BundleOption(problem));
        }
        let stdio = match expanded.outcome {
            BundleOutcome::Runs(stdio) => stdio,
            BundleOutcome::NeedsConfig(keys) => {
                self.needs_config = keys;
                return;
            }
            BundleOutcome::Fails(problem) => {
                return self.report("bundle", ProblemKind::Bundle(problem));
            }
        };
        let BundleEntry { env, cwd, common, disabled, description, .. } = bundle;
        let mut variables = stdio.env;
        variables.retain(|(name, _)| !env.iter().any(|(other, _)| other == name));
        variables.extend(env);
        let stdio = StdioConfig { env: variables, cwd, ..stdio };
        let transport = TransportConfig::Stdio(stdio);
        self.entry = Some(ServerEntry { transport, common, disabled, description });
    }

    /// Is the definition itself disabled, though its entry cannot be made?
    pub(crate) fn is_bundle_disabled(&self) -> bool {
        self.is_disabled_entry || self.bundle.as_ref().is_some_and(|it| it.disabled)
    }

    fn report(&mut self, key: &str, kind: ProblemKind) {
        self.problems.push(Problem {
            origin: self.origin.clone(),
            server: Some(self.name.clone()),
            key: Some(key.to_owned()),
            kind,
            excerpt: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::file::{FileShape, Layer, Naming};
    use crate::merge::{MergeInputs, ResolvedServer, ServerState, resolve};
    use crate::scope::Scope;
    use crate::source::Source;

    const MANIFEST: &str = r#"{"manifest_version": "0.3", "name": "b", "version": "1", "description": "d",
        "author": {"name": "A"}, "server": {"type": "node", "entry_point": "i.js", "mcp_config": {
            "command": "node", "args": ["${__dirname}/i.js", "${user_config.token}"], "env": {"A": "1", "B": "2"}}},
        "user_config": {"token": {"type": "string", "title": "t", "description": "d", "required": true, "sensitive": true}}}"#;

    fn hash() -> String {
        format!("sha256:{}", "0".repeat(64))
    }

    fn resolved_with(
        scope: Scope,
        entry: &str,
        manifest: Result<&BundleManifest, BundleProblem>,
    ) -> ResolvedServer {
        let text = format!("{{\"mcpServers\": {{\"s\": {entry}}}}}").replace("HASH", &hash());
        let source = Source::file(scope, "f");
        let mut layer = Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped);
        let folders = BundleFolders::new(Path::new("/b"), Path::new("/h"));
        for definition in &mut layer.definitions {
            definition.expand_bundle(manifest.clone(), &folders, BundlePlatform::Linux);
        }
        let effective = resolve(MergeInputs { layers: vec![layer], ..MergeInputs::default() });
        effective.servers.into_iter().next().expect("one server is defined")
    }

    fn resolved(scope: Scope, entry: &str) -> ResolvedServer {
        let (manifest, _) = BundleManifest::parse(MANIFEST).expect("it is valid");
        resolved_with(scope, entry, Ok(&manifest))
    }

    fn line(server: &ResolvedServer) -> String {
        let problems: Vec<String> = server.problems.iter().map(|it| it.kind.to_string()).collect();
        let state = match &server.state {
            ServerState::Ready => "ready".to_owned(),
            ServerState::Pending(_) => "pending".to_owned(),
            ServerState::Disabled(_) => "disabled".to_owned(),
            ServerState::NeedsConfig(keys) => format!("needs {}", keys.join(", ")),
            ServerState::Invalid => "invalid".to_owned(),
            ServerState::Rejected
            | ServerState::Refused(_)
            | ServerState::Shadowed { .. }
            | ServerState::Duplicate { .. }
            | ServerState::Excluded(_) => format!("{:?}", server.state),
        };
        let command = server.spec.as_ref().map(|spec| {
            let TransportConfig::Stdio(stdio) = &spec.transport else {
                return format!(" {:?}", spec.transport.kind());
            };
            let args = stdio.args.iter().map(|it| it.to_unresolved_string());
            let env = stdio.env.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
            format!(" {} {}", args.collect::<Vec<_>>().join(" "), env.join(","))
        });
        format!("{state}{} {}", command.unwrap_or_default(), problems.join("; "))
            .trim_end()
            .to_owned()
    }

    #[track_caller]
    fn check(scope: Scope, entry: &str, expected: &str) {
        assert_eq!(line(&resolved(scope, entry)), expected);
    }

    #[test]
    fn an_entry_with_its_values_becomes_a_stdio_server() {
        let entry = r#"{"bundle": "HASH", "userConfig": {"token": "${keychain:t}"}, "env": {"B": "x", "C": "y"}, "cwd": "/w"}"#;
        check(Scope::User, entry, "ready /b/i.js ${keychain:t} A,B,C");
        let server = resolved(Scope::User, entry);
        assert_eq!(server.bundle.expect("it names one").hash.to_string(), hash());
        let plain = r#"{"bundle": "HASH", "userConfig": {"token": "hunter2"}}"#;
        check(
            Scope::User,
            plain,
            "ready /b/i.js hunter2 A,B option `token`: the value is secret, but is not kept in the secret store",
        );
    }

    #[test]
    fn a_missing_value_is_a_state_in_every_scope_and_a_disabled_server_stays_disabled() {
        check(Scope::User, r#"{"bundle": "HASH"}"#, "needs token");
        check(Scope::Project, r#"{"bundle": "HASH", "userConfig": {"token": ""}}"#, "needs token");
        check(Scope::User, r#"{"bundle": "HASH", "disabled": true}"#, "disabled");
    }

    #[test]
    fn a_projects_bundle_is_pending_with_the_command_that_would_run_and_may_name_no_secret() {
        check(
            Scope::Project,
            r#"{"bundle": "HASH", "userConfig": {"token": "${TOKEN:-x}"}}"#,
            "pending /b/i.js x A,B",
        );
        check(
            Scope::Project,
            r#"{"bundle": "HASH", "userConfig": {"token": "${keychain:t}"}}"#,
            "invalid refers to a secret, which the project scope does not allow",
        );
    }

    #[test]
    fn the_hash_and_the_values_are_part_of_what_is_approved() {
        let fingerprint = |entry: &str| resolved(Scope::Project, entry).fingerprint.expect("valid");
        let one = r#"{"bundle": "HASH", "userConfig": {"token": "a"}}"#;
        assert_eq!(fingerprint(one), fingerprint(one));
        assert_ne!(fingerprint(one), fingerprint(&one.replace("\"a\"", "\"b\"")));
        let other = one.replace("HASH", &format!("sha256:{}", "1".repeat(64)));
        assert_ne!(fingerprint(one), fingerprint(&other));
    }

    #[test]
    fn contradictions_are_errors() {
        check(
            Scope::User,
            r#"{"bundle": "x"}"#,
            "invalid must be `sha256:` and 64 hexadecimal digits",
        );
        check(Scope::User, r#"{"bundle": 1}"#, "invalid expected a string, found a number");
        check(
            Scope::User,
            r#"{"bundle": "HASH", "userConfig": []}"#,
            "invalid expected an object, found an array",
        );
        for more in
            [r#""command": "x""#, r#""args": []"#, r#""url": "https://h/""#, r#""type": "http""#]
        {
            check(
                Scope::User,
                &format!("{{\"bundle\": \"HASH\", {more}}}"),
                "invalid has no place beside `bundle`: the bundle says how its server starts",
            );
        }
    }

    #[test]
    fn a_bundle_that_cannot_be_used_leaves_a_server_with_the_reason() {
        let entry = r#"{"bundle": "HASH"}"#;
        let problem = BundleProblem::NotInstalled { short: "0000".to_owned() };
        let server = resolved_with(Scope::User, entry, Err(problem));
        assert_eq!(line(&server), "invalid the bundle 0000 is not installed");
        let hint = server.problems[0].hint().expect("it says what to do");
        assert_eq!(hint, "install the bundle file: swb bundle install FILE");
        let unknown = r#"{"bundle": "HASH", "userConfig": {"token": "${T:-x}", "old": 1}}"#;
        let server = resolved(Scope::User, unknown);
        assert_eq!(
            line(&server),
            "ready /b/i.js x A,B option `old`: the package has no such option"
        );
        let hint = server.problems[0].hint().expect("it says what to do");
        assert_eq!(hint, "remove it: swb bundle configure s --unset old");
    }
}
