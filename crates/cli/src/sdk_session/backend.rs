//! Configuration, models and settings files for a session of an SDK.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use switchboard::Host;
use switchboard::config::display::printable;
use switchboard::config::entry::server::TransportKind;
use switchboard::config::merge::ResolvedServer;
use switchboard::config::permission::{BUILT_IN_SERVER, PermissionEffect, RulePaths, ToolRule};
use switchboard::permission::ActiveRules;
use switchboard::sources::loader::{Configuration, LoadOptions};
use switchboard::sources::plugins::{FOLDER_MARKETPLACE, LoadedPlugin};
use switchboard::wire::shared::Shared;
use switchboard_chat::control::backend::{
    AppliedFields, BackendFuture, InitializeFields, ModelSelection, ProgramServers, ServerChanges,
    SessionBackend, SystemPromptChange, ThinkingLimit, Toggle, UnusedServer,
};
use switchboard_chat::control::permission_update::{PermissionUpdate, RuleText, RuleUpdate};
use switchboard_chat::model::config::ThinkingSetting;
use switchboard_chat::model::language_model::LanguageModel;
use tokio::sync::Mutex;

use crate::commands::print::{ConversationArgs, ToolRules};
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::report;
use crate::output::style::{TextStyle, paint};
use crate::runtime::channels;
use crate::runtime::language_model;
use crate::runtime::language_model::ModelFlags;
use crate::runtime::servers;
use crate::sdk_session::program_servers::ProgramEntries;
use crate::sdk_session::rule_notation;
use crate::sdk_session::server_report;
use crate::sdk_session::session_rules::{RuleChange, RuleStorage, SessionRules};

/// Configuration, models and settings files.
pub(super) struct CliBackend {
    invocation: Invocation,
    arguments: ConversationArgs,
    host: Host,
    rules: SessionRules,
    /// What the program has changed so far. Requests overlap, and each sees the changes of those before it.
    state: Shared<BackendState>,
    /// Held while a change is applied. To read the configuration takes time, and of two changes at a time the older one must
    /// not win.
    changes: Mutex<()>,
}

struct BackendState {
    /// The options of the run, with those that came in the program's first request.
    invocation: Arc<Invocation>,
    /// What came in that request.
    fields: InitializeFields,
    /// The servers that the program named.
    entries: ProgramEntries,
    configuration: Arc<Configuration>,
    disabled: BTreeSet<String>,
    model: ModelSelection,
}

impl CliBackend {
    pub(super) fn new(
        invocation: &Invocation,
        arguments: &ConversationArgs,
        (host, configuration): (&Host, Configuration),
        rules: ActiveRules,
    ) -> CliBackend {
        CliBackend {
            invocation: invocation.clone(),
            arguments: arguments.clone(),
            host: host.clone(),
            rules: SessionRules::new(rules),
            state: Shared::new(BackendState {
                invocation: Arc::new(invocation.clone()),
                fields: InitializeFields::default(),
                entries: ProgramEntries::default(),
                configuration: Arc::new(configuration),
                disabled: BTreeSet::new(),
                model: ModelSelection { name: arguments.model.clone(), max_thinking_tokens: None },
            }),
            changes: Mutex::new(()),
        }
    }

    pub(super) fn rules(&self) -> ActiveRules {
        self.rules.active().clone()
    }

    pub(super) fn configuration(&self) -> Arc<Configuration> {
        self.state.read(|it| it.configuration.clone())
    }

    pub(super) fn load_options(&self) -> LoadOptions {
        self.current_invocation().embedded_options(self.state.read(|it| it.entries.layers()))
    }

    fn current_invocation(&self) -> Arc<Invocation> {
        self.state.read(|it| it.invocation.clone())
    }

    /// The options of the run with the settings and rules of the program's first request.
    fn with_fields(&self, fields: &InitializeFields) -> Result<Invocation, String> {
        let invocation = &self.invocation;
        let mut session = invocation.session.clone();
        let env = &invocation.env;
        let paths = RulePaths { folder: env.working_folder.clone(), home: Some(env.home.clone()) };
        let mut rules = ToolRules { rules: session.rules, unknown_tools: Vec::new() };
        rules
            .add(("disallowedTools", PermissionEffect::Deny), &fields.disallowed_tools, &paths)
            .map_err(|failure| plain_text(&failure))?;
        if !rules.unknown_tools.is_empty() {
            let names = rules.unknown_tools.join(", ");
            self.warn(&format!("there are no such built-in tools: {names}"));
        }
        session.rules = rules.rules;
        if fields.settings.is_some() {
            if session.settings.is_some() {
                return Err(
                    "the settings are given twice: with --settings and in `initialize`".to_owned()
                );
            }
            session.settings.clone_from(&fields.settings);
        }
        Ok(invocation.clone().with_session(session))
    }

    /// Applies the configuration to the host, without the servers that the program disabled.
    pub(super) async fn apply(&self) {
        let (configuration, disabled) =
            self.state.read(|it| (it.configuration.clone(), it.disabled.clone()));
        channels::apply(&self.current_invocation(), &self.host, &configuration).await;
        self.host.set_hooks(&configuration.hooks);
        self.host.set_rules(configuration.rules.clone()).await;
        self.rules.active().replace(configuration.rules.clone());
        let mut desired = servers::desired_servers(&configuration, &[]);
        desired.retain(|it| !disabled.contains(it.name()));
        self.host.apply_servers(desired).await;
    }

    /// Reads the configuration again and applies it. The caller holds `changes`.
    async fn load(&self) -> Result<(), String> {
        let (invocation, entries) =
            self.state.read(|it| (it.invocation.clone(), it.entries.clone()));
        let layers = entries.layers();
        let loading = tokio::task::spawn_blocking(move || invocation.load_embedded(layers));
        let loaded = loading.await.map_err(|error| error.to_string())?;
        let mut configuration = loaded.map_err(|failure| plain_text(&failure))?;
        entries.add_rules(&mut configuration.rules);
        self.state.update(|it| it.configuration = Arc::new(configuration));
        self.apply().await;
        Ok(())
    }

    fn server(&self, name: &str) -> Option<ResolvedServer> {
        self.configuration().effective.winner(name).cloned()
    }

    /// Why a server cannot be used, and what to do.
    fn server_error(&self, name: &str) -> Option<String> {
        server_report::error(&self.invocation.env, &self.configuration(), name)
    }

    async fn change_rules(&self, update: RuleUpdate, change: RuleChange) -> Result<(), String> {
        let project_root = self.configuration().project_root.clone();
        match self.rules.change(&self.invocation.env, project_root, update, change).await? {
            RuleStorage::Unchanged => Ok(()),
            // A rule that is no longer in the file must not hold until the change of the file is noticed.
            RuleStorage::RulesRemoved => self.load().await,
        }
    }

    fn absolute(&self, folder: &str) -> PathBuf {
        self.invocation.env.working_folder.join(folder)
    }

    /// Adds folders for the built-in tools. What is no folder is named, and the others are added.
    fn add_folders(&self, folders: Vec<String>) -> Result<(), String> {
        let (found, missing): (Vec<String>, Vec<String>) =
            folders.into_iter().partition(|it| self.absolute(it).is_dir());
        let found = found.iter().map(|it| self.absolute(it)).collect();
        self.invocation.session.added_folders.add(found);
        match missing.is_empty() {
            true => Ok(()),
            false => Err(format!("there are no such folders: {}", missing.join(", "))),
        }
    }
}

/// The fields of a request that is sent again: what it leaves out stays.
fn joined_fields(before: &InitializeFields, fields: InitializeFields) -> InitializeFields {
    let InitializeFields { mut disallowed_tools, settings, mut servers } = fields;
    if disallowed_tools.is_empty() {
        disallowed_tools.clone_from(&before.disallowed_tools);
    }
    if servers.is_empty() {
        servers.clone_from(&before.servers);
    }
    let settings = settings.or_else(|| before.settings.clone());
    InitializeFields { disallowed_tools, settings, servers }
}

/// A failure for a program: no colors, and no word that its own error already says.
fn plain_text(failure: &Failure) -> String {
    let text = report::failure_text(failure);
    let plain = anstream::adapter::strip_str(&text).to_string();
    let plain = plain.trim();
    plain.strip_prefix("error: ").unwrap_or(plain).to_owned()
}

impl SessionBackend for CliBackend {
    fn warn(&self, text: &str) {
        let warning = paint(TextStyle::Warning, "warning:");
        report::print_stderr(&format!("{warning} {}\n", printable(text)));
    }

    fn is_built_in(&self, server: &str) -> bool {
        server == BUILT_IN_SERVER
    }

    fn server_source(&self, server: &str) -> String {
        match self.server(server) {
            Some(found) => match found.spec.as_ref().map(|it| it.transport.kind()) {
                Some(TransportKind::Sdk) => "sdk".to_owned(),
                Some(_) | None => found.origin.scope().id().to_owned(),
            },
            None => "dynamic".to_owned(),
        }
    }

    fn plugins(&self) -> Vec<Json> {
        let configuration = self.configuration();
        let one = |plugin: &LoadedPlugin| {
            let source = match &plugin.id.marketplace {
                Some(_) => plugin.id.to_string(),
                None => format!("{}@{FOLDER_MARKETPLACE}", plugin.id),
            };
            json!({"name": plugin.id.plugin, "path": plugin.root.to_string_lossy(), "source": source})
        };
        configuration.plugins.iter().map(one).collect()
    }

    fn rule_text(&self, rule: &ToolRule) -> RuleText {
        rule_notation::to_text(rule)
    }

    fn suggested_rule(&self, tool: &str, arguments: &Json) -> RuleText {
        rule_notation::suggestion(tool, arguments)
    }

    fn apply_fields<'a>(
        &'a self,
        fields: InitializeFields,
    ) -> BackendFuture<'a, Result<AppliedFields, String>> {
        Box::pin(async move {
            let _changing = self.changes.lock().await;
            let fields = self.state.read(|it| joined_fields(&it.fields, fields));
            let invocation = Arc::new(self.with_fields(&fields)?);
            let before = self.configuration().rules.default_mode().map(|(mode, _)| mode);
            let replaced = self.state.update(|it| {
                let launched = fields.servers.clone();
                (
                    std::mem::replace(&mut it.invocation, invocation),
                    std::mem::replace(&mut it.entries.launched, launched),
                    std::mem::replace(&mut it.fields, fields),
                )
            });
            if let Err(why) = self.load().await {
                self.state.update(|it| (it.invocation, it.entries.launched, it.fields) = replaced);
                return Err(why);
            }
            let launched: Vec<String> =
                self.state.read(|it| it.entries.launched.keys().cloned().collect());
            for name in launched {
                if let Some(why) = self.server_error(&name) {
                    self.warn(&format!("the server {name} of `initialize` cannot be used: {why}"));
                }
            }
            let mode = self.configuration().rules.default_mode().map(|(mode, _)| mode);
            // An option counts more than settings.
            let chosen = mode.filter(|_| mode != before && self.arguments.mode().is_none());
            Ok(AppliedFields { mode: chosen })
        })
    }

    fn update_permissions<'a>(
        &'a self,
        update: PermissionUpdate,
    ) -> BackendFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let _changing = self.changes.lock().await;
            match update {
                PermissionUpdate::AddRules(rules) => {
                    self.change_rules(rules, RuleChange::Add).await
                }
                PermissionUpdate::ReplaceRules(rules) => {
                    self.change_rules(rules, RuleChange::Replace).await
                }
                PermissionUpdate::RemoveRules(rules) => {
                    self.change_rules(rules, RuleChange::Remove).await
                }
                PermissionUpdate::AddDirectories(folders) => self.add_folders(folders),
                PermissionUpdate::RemoveDirectories(folders) => {
                    let folders: Vec<PathBuf> =
                        folders.iter().map(|it| self.absolute(it)).collect();
                    self.invocation.session.added_folders.remove(&folders);
                    Ok(())
                }
                // The session changes its mode itself.
                PermissionUpdate::SetMode(_) => Ok(()),
            }
        })
    }

    fn open_model<'a>(
        &'a self,
        selection: ModelSelection,
    ) -> BackendFuture<'a, Result<Arc<dyn LanguageModel>, String>> {
        Box::pin(async move {
            let selected = self.state.read(|it| {
                let before = &it.model;
                ModelSelection {
                    name: selection.name.clone().or(before.name.clone()),
                    max_thinking_tokens: selection
                        .max_thinking_tokens
                        .or(before.max_thinking_tokens),
                }
            });
            let (invocation, wanted) = (self.current_invocation(), selected.clone());
            let flags = self.arguments.model_flags();
            // Resolving a key may run a command.
            let opening = tokio::task::spawn_blocking(move || {
                let thinking = wanted.max_thinking_tokens.and_then(|limit| match limit {
                    ThinkingLimit::Configured => None,
                    ThinkingLimit::Tokens(0) => Some(ThinkingSetting::Off),
                    ThinkingLimit::Tokens(tokens) => Some(ThinkingSetting::Budget(tokens)),
                });
                let flags = ModelFlags {
                    model: wanted.name.filter(|it| !it.is_empty()),
                    thinking: thinking.or(flags.thinking),
                    ..flags
                };
                language_model::open_with(&invocation, &flags)
            });
            let opened = opening.await.map_err(|error| error.to_string())?;
            let model = opened.map_err(|failure| failure.message)?;
            let model = model
                .ok_or_else(|| format!("no model is set up: {}", language_model::SETUP_HINT))?;
            self.state.update(|it| it.model = selected);
            Ok(model)
        })
    }

    fn models(&self) -> Vec<Json> {
        let (invocation, chosen) =
            self.state.read(|it| (it.invocation.clone(), it.model.name.clone()));
        let name_of = |name: Option<&str>| {
            let model = language_model::choose(&invocation, name.filter(|it| !it.is_empty()));
            model.ok().flatten().map(|it| it.name)
        };
        let mut models = Vec::new();
        if let Some(name) = name_of(None) {
            models.push(json!({
                "value": "default", "displayName": name, "description": "the configured model",
            }));
        }
        let mut chosen: Vec<String> = self
            .arguments
            .model
            .iter()
            .cloned()
            .chain(chosen)
            .filter(|it| !it.is_empty())
            .collect();
        chosen.dedup();
        for value in chosen {
            if let Some(name) = name_of(Some(&value)) {
                let description = "chosen for this session";
                models
                    .push(json!({"value": value, "displayName": name, "description": description}));
            }
        }
        models
    }

    fn set_servers<'a>(
        &'a self,
        servers: ProgramServers,
    ) -> BackendFuture<'a, Result<ServerChanges, String>> {
        Box::pin(async move {
            let _changing = self.changes.lock().await;
            let before = self.state.update(|it| {
                let before = it.entries.clone();
                match servers {
                    ProgramServers::Hosted(entries) => it.entries.hosted = entries,
                    ProgramServers::Replaced(entries) => {
                        it.entries.hosted.retain(|name, _| entries.contains_key(name));
                        it.entries.added = entries;
                    }
                }
                before
            });
            if let Err(why) = self.load().await {
                self.state.update(|it| it.entries = before);
                return Err(why);
            }
            let after = self.state.read(|it| it.entries.clone());
            let mut changes = ServerChanges::default();
            for name in after.hosted.keys().filter(|name| !before.hosted.contains_key(*name)) {
                if let Some(why) = self.server_error(name) {
                    changes.errors.push((name.clone(), why));
                }
            }
            for (name, entry) in &after.added {
                match self.server_error(name) {
                    Some(why) => changes.errors.push((name.clone(), why)),
                    None if before.added.get(name) != Some(entry) => {
                        changes.added.push(name.clone());
                    }
                    None => {}
                }
            }
            let is_gone = |name: &&String| {
                !after.added.contains_key(*name) && !after.hosted.contains_key(*name)
            };
            let only_hosted = before.hosted.keys().filter(|it| !before.added.contains_key(*it));
            let known = before.added.keys().chain(only_hosted);
            changes.removed = known.filter(is_gone).cloned().collect();
            Ok(changes)
        })
    }

    fn toggle_server<'a>(
        &'a self,
        name: &'a str,
        toggle: Toggle,
    ) -> BackendFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let _changing = self.changes.lock().await;
            if self.server(name).is_none() {
                return Err(format!("Server not found: {name}"));
            }
            if let (Toggle::Enabled, Some(why)) = (toggle, self.server_error(name)) {
                return Err(format!("it cannot be enabled here: {why}"));
            }
            self.state.update(|it| match toggle {
                Toggle::Enabled => it.disabled.remove(name),
                Toggle::Disabled => it.disabled.insert(name.to_owned()),
            });
            self.apply().await;
            Ok(())
        })
    }

    fn unused_servers(&self) -> Vec<UnusedServer> {
        let (configuration, disabled) =
            self.state.read(|it| (it.configuration.clone(), it.disabled.clone()));
        server_report::unused(&self.invocation.env, &configuration, &disabled)
    }

    fn reload<'a>(&'a self) -> BackendFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let _changing = self.changes.lock().await;
            self.load().await
        })
    }

    fn system_prompt(&self, change: &SystemPromptChange) -> String {
        let mut arguments = self.arguments.clone();
        if let Some(text) = &change.replacement {
            arguments.system_prompt = Some(text.clone());
        }
        if let Some(text) = &change.appended {
            arguments.append_system_prompt = Some(text.clone());
        }
        let text = arguments.system_text(&self.invocation);
        text.unwrap_or_else(|failure| {
            self.warn(&failure.message);
            change.replacement.clone().unwrap_or_default()
        })
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn api_key_source(&self) -> String {
        let variables = &self.invocation.env.variables;
        let is_set = |name: &&str| variables.get(*name).is_some_and(|it| !it.is_empty());
        let found = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"].into_iter().find(is_set);
        found.unwrap_or("none").to_owned()
    }
}
