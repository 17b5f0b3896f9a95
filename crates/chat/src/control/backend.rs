//! What a session needs from the program that it runs in: configuration, models and settings files.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use switchboard::config::permission::{PermissionMode, ToolRule};

use crate::control::permission_update::{PermissionUpdate, RuleText};
use crate::model::language_model::LanguageModel;

/// The future of a method.
pub type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Configuration, models and settings. Errors are texts for the program.
pub trait SessionBackend: Send + Sync {
    /// Warns the person who runs the program.
    fn warn(&self, text: &str);

    /// Whether a server is a part of this program: its tools have plain names, and lists of servers leave it out.
    fn is_built_in(&self, server: &str) -> bool;

    /// Where the definition of a server comes from: `user`, `project`, `sdk` …
    fn server_source(&self, server: &str) -> String;

    /// The plugins in use, as frames list them: `name`, `path` and `source` of each.
    fn plugins(&self) -> Vec<Json>;

    /// A rule in the notation of the SDKs.
    fn rule_text(&self, rule: &ToolRule) -> RuleText;

    /// The rule that allows such a call from now on, in the notation of the SDKs.
    fn suggested_rule(&self, tool: &str, arguments: &Json) -> RuleText;

    /// Applies what the program's first request says besides hooks and prompts. Nothing is half applied where it fails:
    /// the session sends no message then.
    fn apply_fields<'a>(
        &'a self,
        fields: InitializeFields,
    ) -> BackendFuture<'a, Result<AppliedFields, String>>;

    /// Changes the permission rules. The mode is left to the session.
    fn update_permissions<'a>(
        &'a self,
        update: PermissionUpdate,
    ) -> BackendFuture<'a, Result<(), String>>;

    /// Sets a model up.
    fn open_model<'a>(
        &'a self,
        selection: ModelSelection,
    ) -> BackendFuture<'a, Result<Arc<dyn LanguageModel>, String>>;

    /// The models that can be chosen: `value`, `displayName`, `description`.
    fn models(&self) -> Vec<Json>;

    /// Replaces the servers that the program added while it runs, and those that it hosts.
    fn set_servers<'a>(
        &'a self,
        servers: ProgramServers,
    ) -> BackendFuture<'a, Result<ServerChanges, String>>;

    /// Enables or disables a server for this session.
    fn toggle_server<'a>(
        &'a self,
        name: &'a str,
        toggle: Toggle,
    ) -> BackendFuture<'a, Result<(), String>>;

    /// The configured servers that are not used, because the program or the configuration says so.
    fn unused_servers(&self) -> Vec<UnusedServer>;

    /// Reads the configuration again.
    fn reload<'a>(&'a self) -> BackendFuture<'a, Result<(), String>>;

    /// The system prompt with what the program says about it.
    fn system_prompt(&self, change: &SystemPromptChange) -> String;

    /// The version of this program.
    fn version(&self) -> String;

    /// Where the key of the model comes from.
    fn api_key_source(&self) -> String;
}

/// What the first request of a program may contain in place of options of the command line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InitializeFields {
    /// Rules for tools that are denied.
    pub disallowed_tools: Vec<String>,
    /// Settings: a path or JSON.
    pub settings: Option<String>,
    /// Servers, by their names.
    pub servers: Map<String, Json>,
}

/// What follows from the fields of the first request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppliedFields {
    /// The permission mode that the settings choose.
    pub mode: Option<PermissionMode>,
}

/// A model to set up. What is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelSelection {
    /// The name; an empty one for the configured model.
    pub name: Option<String>,
    /// The most tokens for thinking.
    pub max_thinking_tokens: Option<ThinkingLimit>,
}

/// How much a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingLimit {
    /// As configured.
    Configured,
    /// At most this many tokens; 0 for none.
    Tokens(u64),
}

/// Servers of the program. `tools` of an entry may be a list: what the program wants to happen to calls of single tools.
#[derive(Debug, Clone, PartialEq)]
pub enum ProgramServers {
    /// Servers that the program hosts since it started, as entries of type `sdk`.
    Hosted(Map<String, Json>),
    /// All servers of the program, as entries; those of type `sdk` are hosted.
    Replaced(Map<String, Json>),
}

/// A configured server that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedServer {
    /// Its name.
    pub name: String,
    /// What the program is told.
    pub status: UnusedStatus,
    /// The cause, unless the program itself disabled it.
    pub why: Option<String>,
}

/// Why a configured server is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnusedStatus {
    /// It is disabled.
    Disabled,
    /// It waits for the user's approval.
    Pending,
    /// A policy refuses it, or its entry is wrong.
    Failed,
}

impl UnusedStatus {
    /// The word of the SDKs.
    pub(crate) fn id(self) -> &'static str {
        match self {
            UnusedStatus::Disabled => "disabled",
            UnusedStatus::Pending => "pending",
            UnusedStatus::Failed => "failed",
        }
    }
}

/// What changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerChanges {
    /// Servers that exist now.
    pub added: Vec<String>,
    /// Servers that exist no more.
    pub removed: Vec<String>,
    /// Servers that cannot be used, and why.
    pub errors: Vec<(String, String)>,
}

/// Whether a server is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toggle {
    /// It is.
    Enabled,
    /// It is not.
    Disabled,
}

/// What a program says about the system prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemPromptChange {
    /// A text that replaces it.
    pub replacement: Option<String>,
    /// A text behind it.
    pub appended: Option<String>,
}
