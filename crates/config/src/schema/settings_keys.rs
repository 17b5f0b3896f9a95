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
    settings_key("registry", "object", true, "where `swb registry` looks for servers"),
    settings_key(
        "enabledPlugins",
        "object",
        true,
        "whether each plugin, by `plugin@marketplace`, is enabled; also in `.mcp.json`, where its servers need approval",
    ),
    settings_key(
        "extraKnownMarketplaces",
        "object",
        true,
        "marketplaces by name, each with its `source`; also in `.mcp.json`. `swb plugin marketplace add NAME` adds one",
    ),
    settings_key(
        "pluginConfigs",
        "object",
        true,
        "values for the options of plugins: by id, `options` and, for servers from bundles, `mcpServers`",
    ),
    settings_key(
        "strictKnownMarketplaces",
        "array",
        true,
        "in managed settings: only plugins of these marketplaces are used; an empty list allows none",
    ),
    settings_key(
        "blockedMarketplaces",
        "array",
        true,
        "in managed settings: no plugin of these marketplaces is used, whatever else allows it",
    ),
    settings_key(
        "disableConnectors",
        "boolean",
        true,
        "`true` in any file, also in `.mcp.json`: no connector is used, and the account is not asked for them",
    ),
    settings_key(
        "disableClaudeAiConnectors",
        "boolean",
        true,
        "another name of `disableConnectors`",
    ),
    settings_key(
        "sessionIngress",
        "object",
        true,
        "the bearer token of the session that this program runs in, and the origin that gets it",
    ),
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
        "quotas",
        "array of objects",
        true,
        "how many tools the clients of a gateway may call, per minute, per day and at the same time; those of all files hold",
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
    settings_key("browser", "object", true, "the browser server: whether it is used, and how"),
    settings_key(
        "channelsEnabled",
        "boolean",
        true,
        "in managed settings: `true` lets sessions take messages of the plugins in `allowedChannelPlugins`",
    ),
    settings_key(
        "allowedChannelPlugins",
        "array of objects",
        true,
        "in managed settings: the plugins that may be channels, each with `marketplace` and `plugin`; an empty list allows none",
    ),
    settings_key(
        "disableDevelopmentChannels",
        "boolean",
        true,
        "in managed settings: `true` takes the effect of `--dangerously-load-development-channels` away",
    ),
    settings_key(
        "channelPermissionRelay",
        "boolean",
        true,
        "`true`: pending permission requests are also sent to the channels of a session; `false` in managed settings forbids that",
    ),
    settings_key(
        "theme",
        "string",
        false,
        "the colours of the screen: `dark` or `light`; by default those of the terminal",
    ),
    settings_key(
        "autoConnectIde",
        "boolean",
        false,
        "`true`: a conversation connects the IDE that has its folder open, without `--ide`",
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
    settings_key("clientId", "string", true, "the id of a client that is registered there"),
    settings_key("callbackPort", "number", true, "the port of the redirect URL"),
    settings_key(
        "authServerMetadataUrl",
        "string",
        true,
        "the URL of the authorization server's metadata, where it cannot be discovered",
    ),
    settings_key(
        "proxyUrl",
        "string",
        true,
        "the URL of the proxy, with `{id}` for the id of a connector, if the API lists the URLs of vendors; it gets the token too",
    ),
    settings_key("manageUrl", "string", true, "the page where you manage your connectors"),
];

/// Every key of `sessionIngress`.
pub const SESSION_INGRESS_KEYS: &[SettingsKey] = &[
    settings_key(
        "url",
        "string",
        true,
        "a URL of the origin that gets the token; https, or a URL of this machine",
    ),
    settings_key(
        "token",
        "string",
        true,
        "the token, if the environment does not have it; preferably a reference",
    ),
];

/// Every key of `registry`.
pub const REGISTRY_KEYS: &[SettingsKey] = &[settings_key(
    "url",
    "string",
    true,
    "the base URL of the registry; https, or a URL of this machine. An administrator's cannot be replaced with `--registry`",
)];

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
    settings_key(
        "chain",
        "string",
        true,
        "`hash` or `signed`: each record names the digest of the one before it, and the end of the chain is signed, so that `swb audit verify` finds changes; `off` by default",
    ),
    settings_key(
        "keyFile",
        "string",
        true,
        "the absolute path of the private key that signs the chain; it is created. By default it is beside the log",
    ),
    settings_key(
        "syslog",
        "string",
        true,
        "a gateway sends its records to this syslog service (RFC 5424): `unix:/dev/log`, `udp://host:514` or `tcp://host:601`",
    ),
    settings_key(
        "webhook",
        "string",
        true,
        "a gateway sends its records to this `https://` URL, as JSON",
    ),
    settings_key(
        "webhookTokenFile",
        "string",
        true,
        "the absolute path of a file with the bearer token for the webhook",
    ),
    settings_key(
        "otlp",
        "boolean",
        true,
        "a gateway sends its records as OpenTelemetry logs to the collector of `OTEL_EXPORTER_OTLP_ENDPOINT`",
    ),
];

/// The keys of each of the `quotas`.
pub const QUOTA_KEYS: &[SettingsKey] = &[
    settings_key(
        "principal",
        "string",
        true,
        "the client: its name, `subject@issuer` or `cert:name`; `*` (the default) gives each client this quota for itself",
    ),
    settings_key(
        "calls",
        "string",
        true,
        "the tools whose calls count together, as a rule: `mcp__server` or `mcp__server__tool`; all by default",
    ),
    settings_key(
        "perMinute",
        "number",
        true,
        "the most calls per minute, with bursts of this size",
    ),
    settings_key("perDay", "number", true, "the most calls per day (UTC)"),
    settings_key("concurrent", "number", true, "the most calls at the same time"),
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

/// The keys of `browser`.
pub const BROWSER_KEYS: &[SettingsKey] = &[
    settings_key(
        "enabled",
        "boolean",
        true,
        "`true`: conversations and commands have the browser server, as with `--browser`. `false` in managed settings: no session has it",
    ),
    settings_key(
        "window",
        "boolean",
        true,
        "`true`: the browser has a window; by default it has none",
    ),
    settings_key(
        "profile",
        "string",
        true,
        "the name of a profile whose cookies stay; by default each session begins with nothing",
    ),
    settings_key(
        "endpoint",
        "string",
        true,
        "the debugging endpoint of a browser that already runs, such as `http://127.0.0.1:9222`",
    ),
    settings_key(
        "program",
        "string",
        true,
        "the path of the browser; by default the first of the known ones in `PATH`",
    ),
    settings_key(
        "origins",
        "array of strings",
        true,
        "the origins that a model may open without a question, such as `example.com`, `*.example.com` or `localhost:3000`; hosts of this machine and of private networks only if they are here. By default all public ones. Options do not extend an administrator's",
    ),
    settings_key(
        "blocked",
        "array of strings",
        true,
        "hosts that no page reaches; those of all files count",
    ),
    settings_key(
        "scripts",
        "boolean",
        true,
        "`false`: a model cannot run scripts in pages. In managed settings it counts for everyone",
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
