//! Logins at remote servers: OAuth, the identity provider, the connector account, the session
//! of this program and the commands that print headers.
//! Flows and token storage are left to the `auth` crate; no token passes through here as text.

pub(crate) mod auth_required;
mod bearer;
mod client_metadata;
pub(crate) mod connector_account;
pub(crate) mod connectors;
pub(crate) mod context;
pub(crate) mod dynamic_headers;
pub(crate) mod headers_helper;
pub(crate) mod identity_provider;
pub(crate) mod method;
pub(crate) mod options;
pub(crate) mod pending;
mod profile;
pub(crate) mod server_login;
pub(crate) mod session_ingress;
pub(crate) mod summary;

pub use auth_required::forget_auth_required;
pub use client_metadata::client_metadata_document;
pub use connectors::ConnectorsError;
pub use options::{LoginOptions, LoginRequest};
pub use pending::LoginStage;
pub use server_login::ServerLoginError;
pub use session_ingress::{SessionIngressOptions, SessionTokenSource};
pub use summary::{LoginView, LogoutOutcome};
