//! The keys of a server entry and of the objects in it.

use crate::entry::TransportKind;

/// A key of a server entry, for decoding, for warnings and for the reference page.
#[derive(Debug, Clone, Copy)]
pub struct EntryKey {
    /// The key.
    pub name: &'static str,
    /// The type of its value.
    pub value: &'static str,
    /// The transports on which it has an effect; empty means all.
    pub transports: &'static [TransportKind],
    /// The description of the key.
    pub description: &'static str,
}

const STDIO: &[TransportKind] = &[TransportKind::Stdio];

const REMOTE: &[TransportKind] =
    &[TransportKind::Http, TransportKind::Sse, TransportKind::Ws, TransportKind::ConnectorProxy];

const WITH_OAUTH: &[TransportKind] =
    &[TransportKind::Http, TransportKind::Sse, TransportKind::ConnectorProxy];

const IDE: &[TransportKind] = &[TransportKind::SseIde, TransportKind::WsIde];

const WITH_URL: &[TransportKind] = &[
    TransportKind::Http,
    TransportKind::Sse,
    TransportKind::Ws,
    TransportKind::ConnectorProxy,
    TransportKind::SseIde,
    TransportKind::WsIde,
];

macro_rules! keys {
    ($($name:literal, $value:literal, $transports:expr, $about:literal;)*) => {
        &[$(EntryKey { name: $name, value: $value, transports: $transports, description: $about }),*]
    };
}

/// Every key of an entry.
pub const ENTRY_KEYS: &[EntryKey] = keys! {
    "type", "string", &[], "the transport; `stdio` when absent";
    "command", "string", STDIO, "the program to start";
    "args", "array of strings", STDIO, "its arguments";
    "env", "object of strings", STDIO, "environment variables that it gets in addition to ours";
    "cwd", "string", STDIO, "its working folder";
    "bundle", "string", STDIO, "instead of `command` and `args`: an installed `.mcpb` bundle, as `sha256:` and its hash";
    "userConfig", "object", STDIO, "the values of the bundle's options";
    "url", "string", WITH_URL, "the URL of the server";
    "headers", "object of strings", REMOTE, "headers sent with every request";
    "headersHelper", "string", REMOTE, "a command that prints more headers as a JSON object";
    "oauth", "object", WITH_OAUTH, "how to log in";
    "tls", "object", REMOTE, "certificates for this server";
    "trust", "boolean", &[], "run its tools without a prompt; has an effect only in scopes that you or your administrator control";
    "timeout", "number, milliseconds", &[], "how long a tool call may take without a sign of progress";
    "connectTimeout", "number, milliseconds", &[], "how long connecting may take, from the start of the program";
    "sharing", "string", STDIO, "which sessions use one copy of the program: `user` (all of yours), `workspace` (those in one folder, the default) or `session` (none)";
    "tools", "object", &[], "which of its tools are in the pool: `allow`, `deny`";
    "permissions", "object", &[], "permission rules for its tools: `allow`, `ask`, `deny`, each an array of `tool` or `tool(argument=value)`, in `ask` also an object with `rule` and `approver`; `allow` has an effect only in scopes that you or your administrator control";
    "disabled", "boolean", &[], "disable the server";
    "description", "string", &[], "a description for users";
    "ideName", "string", IDE, "the IDE's name";
    "authToken", "string", IDE, "the token that the IDE requires";
    "name", "string", &[TransportKind::Sdk], "the server's name inside the embedding program";
};

/// Every key of `oauth`.
pub const OAUTH_KEYS: &[EntryKey] = keys! {
    "clientId", "string", WITH_OAUTH, "the id of a pre-registered client";
    "clientSecret", "string", WITH_OAUTH, "the secret of the client; preferably a reference";
    "callbackPort", "number", WITH_OAUTH, "the port of the redirect URL";
    "authServerMetadataUrl", "string", WITH_OAUTH, "the URL of the authorization server's metadata; https only";
    "clientMetadataUrl", "string", WITH_OAUTH, "the URL of our client metadata document, used as the client id where the authorization server supports such documents; https only; default: that of the settings";
    "scopes", "array of strings, or one string", WITH_OAUTH, "the scopes to request";
    "xaa", "boolean", WITH_OAUTH, "log in through the identity provider of the enterprise";
    "grant", "string", WITH_OAUTH, "how tokens are obtained: `authorization_code` (a user logs in), `client_credentials`, or `jwt_bearer` (a token of the platform)";
    "privateKey", "string", WITH_OAUTH, "the PEM key that the client signs with instead of a secret; preferably a reference";
    "workloadToken", "string", WITH_OAUTH, "the token of the platform for `jwt_bearer`; preferably a reference";
};

/// Every key of `tls`.
pub const TLS_KEYS: &[EntryKey] = keys! {
    "caFile", "string", REMOTE, "a PEM file with certificate authorities to trust in addition to those of the system";
    "clientCertificate", "string", REMOTE, "a PEM file with our client certificate, for servers that require one";
    "clientKey", "string", REMOTE, "a PEM file with its key; not needed if the file of the certificate contains it";
};

/// Every key of `tools`.
pub const TOOLS_KEYS: &[EntryKey] = keys! {
    "allow", "array of strings", &[], "only these tools";
    "deny", "array of strings", &[], "all tools but these";
};
