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
    /// The description of the key.
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
        "only servers that match an entry may run; an empty list allows nothing",
    ),
    settings_key(
        "deniedMcpServers",
        "array",
        true,
        "servers that match an entry may not run, whatever else allows them",
    ),
    settings_key(
        "allowManagedMcpServersOnly",
        "boolean",
        true,
        "in managed settings: only the managed allow list counts",
    ),
    settings_key(
        "commandPath",
        "string",
        true,
        "in managed settings: the `PATH` in which `serverCommand` entries find their programs [default: the folders of the system]",
    ),
    settings_key("disabledMcpServers", "array of strings", false, "the names of disabled servers"),
    settings_key(
        "permissions",
        "object",
        true,
        "which tools may be called, and which need a prompt",
    ),
    settings_key(
        "principals",
        "object",
        true,
        "additional permissions for clients of `swb serve --pool`, by name; `*` means every client",
    ),
    settings_key("hooks", "object", true, "commands that answer elicitations before you are asked"),
    settings_key(
        "identityProvider",
        "object",
        true,
        "the identity provider for servers with `oauth.xaa`",
    ),
    settings_key("xaaIdp", "object", true, "another name of `identityProvider`"),
    settings_key("oauth", "object", true, "defaults for logins at every server"),
    settings_key("connectorAccount", "object", true, "the account whose connectors you use"),
    settings_key(
        "model",
        "object",
        true,
        "the language model for conversations and for servers that request sampling",
    ),
    settings_key(
        "audit",
        "object",
        true,
        "how long calls are recorded, and whether a call may run without a record",
    ),
    settings_key(
        "gatewayLimits",
        "object",
        true,
        "how much of a gateway over HTTP one client, one address and all clients may use",
    ),
    settings_key(
        "shareHost",
        "boolean",
        true,
        "`false`: each session runs its own copy of every server, and no shared host is used",
    ),
    settings_key(
        "sharing",
        "object",
        true,
        "which servers sessions share, and how long a server stays without a session",
    ),
    settings_key(
        "theme",
        "string",
        false,
        "the colours of the screen: `dark` or `light`; by default those of the terminal",
    ),
    settings_key(
        "project",
        "string",
        false,
        "in local settings: the project that they belong to, for information; written by `swb`",
    ),
    settings_key("$schema", "string", true, "ignored"),
];

/// Every key of `permissions`.
pub const PERMISSIONS_KEYS: &[SettingsKey] = &[
    settings_key("allow", "array of rules", true, "calls that need no prompt"),
    settings_key(
        "ask",
        "array of rules",
        true,
        "calls that always need a prompt, whatever allows them; an entry may be an object with `rule` and `approver`",
    ),
    settings_key(
        "approver",
        "string",
        true,
        "who is asked about calls of a gateway's clients: `client`, `operator` or `both`; default: `operator` for managed `ask` rules, else `client`; without effect in a project's file",
    ),
    settings_key("deny", "array of rules", true, "calls that are never made, whatever allows them"),
    settings_key(
        "defaultMode",
        "string",
        true,
        "the initial mode: `default`, `plan`, `acceptEdits`, `dontAsk` or `bypass`",
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
    "rules for this client, in addition to those for every client",
)];

/// The only hook event.
pub(crate) const ELICITATION: &str = "Elicitation";

/// Every key of `hooks`.
pub const HOOKS_KEYS: &[SettingsKey] = &[settings_key(
    ELICITATION,
    "array of groups",
    true,
    "commands that get an elicitation as JSON and may answer it; `matcher` names the servers",
)];

/// Every key of `identityProvider`.
pub const IDENTITY_PROVIDER_KEYS: &[SettingsKey] = &[
    settings_key("issuer", "string", true, "the issuer URL; https, or a URL of this machine"),
    settings_key("clientId", "string", true, "our client id"),
    settings_key(
        "clientSecret",
        "string",
        true,
        "our client secret, if we have one; preferably a reference",
    ),
    settings_key("callbackPort", "number", true, "the port of the redirect URL"),
    settings_key(
        "tokenEndpoint",
        "string",
        true,
        "the token endpoint, if the metadata does not contain it",
    ),
    settings_key(
        "identityToken",
        "string",
        true,
        "the identity token, for machines where no user can log in; preferably a reference",
    ),
];

/// Every key of `oauth` in a settings file.
pub const LOGIN_DEFAULTS_KEYS: &[SettingsKey] = &[settings_key(
    "clientMetadataUrl",
    "string",
    true,
    "the URL of our client metadata document, for servers whose entry names none; https only. `swb auth client-metadata` prints the document",
)];

/// Every key of `connectorAccount`.
pub const CONNECTOR_ACCOUNT_KEYS: &[SettingsKey] = &[
    settings_key(
        "apiUrl",
        "string",
        true,
        "the URL of the API that lists its connectors; https, or a URL of this machine",
    ),
    settings_key(
        "token",
        "string",
        true,
        "the token for the API, if there is no stored login; preferably a reference",
    ),
];

/// Every key of `model`.
pub const MODEL_KEYS: &[SettingsKey] = &[
    settings_key(
        "provider",
        "string",
        true,
        "the API: `anthropic`, `openai` (chat completions) or `openai-responses`",
    ),
    settings_key("name", "string", true, "the name of the model at its provider"),
    settings_key(
        "baseUrl",
        "string",
        true,
        "the base URL of the API, if not that of the provider; https, or a URL of this machine",
    ),
    settings_key(
        "apiKey",
        "string",
        true,
        "the API key; preferably a reference. Without `baseUrl` and `apiKey`, both are taken from the environment",
    ),
    settings_key("maxTokens", "number", true, "the maximum length of a response, in tokens"),
    settings_key("window", "number", true, "the context window, in tokens, if it is not known"),
    settings_key(
        "thinking",
        "number",
        true,
        "the token budget for thinking, if the provider requires one",
    ),
];

/// The keys of `audit`.
pub const AUDIT_KEYS: &[SettingsKey] = &[
    settings_key(
        "unrecordedCalls",
        "string",
        true,
        "calls whose record cannot be written: `allow` (the default) runs them and says so, `refuse` refuses them (the default where an administrator's settings exist)",
    ),
    settings_key(
        "keepDays",
        "number",
        true,
        "records younger than this are never removed, whatever the size of the log; 30 by default",
    ),
    settings_key(
        "maxMegabytes",
        "number",
        true,
        "the size of all files of the log together; 1024 by default. Without old records to remove, new ones cannot be written",
    ),
];

/// The keys of `sharing`.
pub const SHARING_KEYS: &[SettingsKey] = &[
    settings_key(
        "servers",
        "object of strings",
        true,
        "the sharing class of servers by name: `user`, `workspace` or `session`. An administrator's precedes `sharing` in the server's entry; yours has an effect where the entry has none",
    ),
    settings_key(
        "userIdleMinutes",
        "number",
        true,
        "how long a server of the class `user` runs without a session; 10 by default",
    ),
    settings_key(
        "workspaceIdleMinutes",
        "number",
        true,
        "how long a server of the class `workspace` runs without a session; 10 by default",
    ),
];

/// The keys of `gatewayLimits`.
pub const GATEWAY_LIMITS_KEYS: &[SettingsKey] = &[
    settings_key(
        "sessions",
        "number",
        true,
        "sessions and `subscriptions/listen` streams of one principal; 1000 by default",
    ),
    settings_key(
        "sessionsTotal",
        "number",
        true,
        "the same of all clients; 10000 by default. One address may have half of them",
    ),
    settings_key(
        "requestsInFlight",
        "number",
        true,
        "requests of one principal that run at the same time; 256 by default",
    ),
    settings_key(
        "requestsInFlightTotal",
        "number",
        true,
        "the same of all clients; 8192 by default. One address may have half of them",
    ),
    settings_key(
        "requestsPerSecond",
        "number",
        true,
        "requests of one principal per second, with bursts of the same size; 500 by default. One address may send eight times as many",
    ),
    settings_key(
        "keptMegabytes",
        "number",
        true,
        "events of one principal that are kept so that streams can be resumed, and as many again that wait to be read; 64 by default",
    ),
    settings_key("keptMegabytesTotal", "number", true, "the same of all clients; 512 by default"),
    settings_key(
        "connections",
        "number",
        true,
        "open connections of one principal; 2048 by default",
    ),
    settings_key(
        "connectionsPerAddress",
        "number",
        true,
        "open connections from one remote address, or from one IPv6 network of 64 bits; 4096 by default",
    ),
    settings_key(
        "connectionsTotal",
        "number",
        true,
        "open connections of all clients; 8192 by default. A quarter of them may be open without an authenticated request",
    ),
];
