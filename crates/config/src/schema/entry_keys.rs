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
    /// What it does.
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
    "env", "object of strings", STDIO, "variables it gets besides ours";
    "cwd", "string", STDIO, "the folder it starts in";
    "url", "string", WITH_URL, "where the server is";
    "headers", "object of strings", REMOTE, "headers sent with every request";
    "headersHelper", "string", REMOTE, "a command that prints further headers as a JSON object";
    "oauth", "object", WITH_OAUTH, "how to sign in";
    "tls", "object", REMOTE, "certificates for this server";
    "trust", "boolean", &[], "run its tools without asking; counts only from scopes that you or your administrator control";
    "timeout", "number, milliseconds", &[], "how long connecting, and then each call, may take";
    "tools", "object", &[], "which of its tools come into the pool: `allow`, `deny`";
    "disabled", "boolean", &[], "switch the server off";
    "description", "string", &[], "a note for people";
    "ideName", "string", IDE, "the IDE's name";
    "authToken", "string", IDE, "the token that the IDE wants";
    "name", "string", &[TransportKind::Sdk], "the server's name inside the embedding program";
};

/// Every key of `oauth`.
pub const OAUTH_KEYS: &[EntryKey] = keys! {
    "clientId", "string", WITH_OAUTH, "a client that was registered beforehand";
    "clientSecret", "string", WITH_OAUTH, "its secret; better named than written";
    "callbackPort", "number", WITH_OAUTH, "the port of the redirect address";
    "authServerMetadataUrl", "string", WITH_OAUTH, "where the authorization server's metadata is; https only";
    "scopes", "array of strings, or one string", WITH_OAUTH, "scopes to ask for";
    "xaa", "boolean", WITH_OAUTH, "sign in through the enterprise's identity provider";
    "grant", "string", WITH_OAUTH, "how tokens are had: `authorization_code` (a person signs in), `client_credentials`, or `jwt_bearer` (a platform's token)";
    "privateKey", "string", WITH_OAUTH, "a PEM key that the client signs with instead of a secret; better named than written";
    "workloadToken", "string", WITH_OAUTH, "the platform's token for `jwt_bearer`; better named than written";
};

/// Every key of `tls`.
pub const TLS_KEYS: &[EntryKey] = keys! {
    "caFile", "string", REMOTE, "a PEM file with authorities to trust besides the system's";
    "clientCertificate", "string", REMOTE, "a PEM file with our certificate, for servers that want one";
    "clientKey", "string", REMOTE, "a PEM file with its key; absent where the certificate's file holds it";
};

/// Every key of `tools`.
pub const TOOLS_KEYS: &[EntryKey] = keys! {
    "allow", "array of strings", &[], "only these tools";
    "deny", "array of strings", &[], "never these tools";
};
