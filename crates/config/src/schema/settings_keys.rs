//! The keys of a settings file and of the objects in it.

/// A key of a settings file, for reading, for warnings and for the reference page.
#[derive(Debug, Clone, Copy)]
pub struct SettingsKey {
    /// The key.
    pub name: &'static str,
    /// The type of its value.
    pub value: &'static str,
    /// Does it count in managed settings?
    pub managed: bool,
    /// What it does.
    pub description: &'static str,
}

const fn settings_key(
    name: &'static str,
    value: &'static str,
    managed: bool,
    about: &'static str,
) -> SettingsKey {
    SettingsKey { name, value, managed, description: about }
}

/// Every key of a settings file.
pub const SETTINGS_KEYS: &[SettingsKey] = &[
    settings_key(
        "mcpServers",
        "object",
        false,
        "servers by name (an administrator's are in `managed-mcp.json`)",
    ),
    settings_key(
        "allowedMcpServers",
        "array",
        true,
        "only servers that an entry matches may run; an empty list allows nothing",
    ),
    settings_key(
        "deniedMcpServers",
        "array",
        true,
        "servers that an entry matches may not run, whatever else allows them",
    ),
    settings_key(
        "allowManagedMcpServersOnly",
        "boolean",
        true,
        "in managed settings: of the allow lists, only the managed one counts",
    ),
    settings_key(
        "disabledMcpServers",
        "array of strings",
        false,
        "names of servers that are switched off",
    ),
    settings_key("permissions", "object", true, "which tools may be called, and which ask first"),
    settings_key(
        "principals",
        "object",
        true,
        "what clients of `swb serve --pool` may do besides, by their names; `*` is everybody",
    ),
    settings_key(
        "hooks",
        "object",
        true,
        "commands that answer servers' questions before you are asked",
    ),
    settings_key(
        "identityProvider",
        "object",
        true,
        "who vouches for you at servers with `oauth.xaa`",
    ),
    settings_key("connectorAccount", "object", true, "the account whose connectors you use"),
    settings_key(
        "model",
        "object",
        true,
        "the language model that answers you, and servers that ask for one",
    ),
    settings_key(
        "theme",
        "string",
        false,
        "the screen's colours: `dark` or `light`; else what the terminal says",
    ),
    settings_key(
        "project",
        "string",
        false,
        "in local settings: the project they belong to, for people; written by `swb`",
    ),
    settings_key("$schema", "string", true, "ignored"),
];

/// Every key of `permissions`.
pub const PERMISSIONS_KEYS: &[SettingsKey] = &[
    settings_key("allow", "array of rules", true, "calls that are made without asking"),
    settings_key("ask", "array of rules", true, "calls that ask, whatever allows them"),
    settings_key(
        "deny",
        "array of rules",
        true,
        "calls that are never made, whatever else allows them",
    ),
    settings_key(
        "defaultMode",
        "string",
        true,
        "the mode to begin with: `default`, `plan`, `acceptEdits`, `dontAsk` or `bypass`",
    ),
    settings_key(
        "disableBypass",
        "boolean",
        true,
        "in managed settings: `bypass` acts as `default`",
    ),
];

/// Every key of one principal in `principals`.
pub const PRINCIPAL_KEYS: &[SettingsKey] = &[settings_key(
    "permissions",
    "object",
    true,
    "rules for this one, besides those for everybody",
)];

/// The only hook event.
pub(crate) const ELICITATION: &str = "Elicitation";

/// Every key of `hooks`.
pub const HOOKS_KEYS: &[SettingsKey] = &[settings_key(
    ELICITATION,
    "array of groups",
    true,
    "commands that get a server's question as JSON, and may answer it; `matcher` names the servers",
)];

/// Every key of `identityProvider`.
pub const IDENTITY_PROVIDER_KEYS: &[SettingsKey] = &[
    settings_key(
        "issuer",
        "string",
        true,
        "the identity provider's address; https only, or this machine",
    ),
    settings_key("clientId", "string", true, "who we are there"),
    settings_key(
        "clientSecret",
        "string",
        true,
        "our secret there, where we have one; better named",
    ),
    settings_key("callbackPort", "number", true, "the port of the redirect address"),
    settings_key(
        "tokenEndpoint",
        "string",
        true,
        "where its tokens are, where it does not say so itself",
    ),
    settings_key(
        "identityToken",
        "string",
        true,
        "who is signed in, where nobody can be; better named",
    ),
];

/// Every key of `connectorAccount`.
pub const CONNECTOR_ACCOUNT_KEYS: &[SettingsKey] = &[
    settings_key(
        "apiUrl",
        "string",
        true,
        "where its connectors are listed; https only, or this machine",
    ),
    settings_key(
        "token",
        "string",
        true,
        "what to show there, where no login is kept; better named",
    ),
];

/// Every key of `model`.
pub const MODEL_KEYS: &[SettingsKey] = &[
    settings_key(
        "provider",
        "string",
        true,
        "how it is spoken to: `anthropic`, `openai` (chat completions) or `openai-responses`",
    ),
    settings_key("name", "string", true, "what its provider calls it"),
    settings_key(
        "baseUrl",
        "string",
        true,
        "where it is, if not at its provider's; https only, or this machine",
    ),
    settings_key(
        "apiKey",
        "string",
        true,
        "what to show there; better named. Without `baseUrl` and `apiKey` both are taken from the environment",
    ),
    settings_key("maxTokens", "number", true, "the longest answer, in tokens"),
    settings_key(
        "window",
        "number",
        true,
        "how much it can look at, in tokens, where that is not known",
    ),
    settings_key(
        "thinking",
        "number",
        true,
        "how many tokens it may think with, where its provider wants to be told",
    ),
];
