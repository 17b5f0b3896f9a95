//! HTTP for servers at URLs: settings, the two clients, authorization, redirects and server-sent events.
//! Which messages go over it is left to `transport`; tokens are left to the implementations of [`Authorize`].

pub(crate) mod authorize;
pub(crate) mod body;
pub mod client;
pub(crate) mod error;
pub(crate) mod http1;
pub(crate) mod origin;
pub mod plain;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod send;
pub(crate) mod settings;
pub mod sse_decoder;
pub(crate) mod target;

pub use authorize::{
    Authorize, HeadersFuture, OutboundRequest, ResponseHead, RetryDecision, RetryFuture,
};
pub use client::HttpClient;
pub use settings::{HttpSettings, HttpSetupError, ProxySettings, TrustRoots};
pub use target::Target;
