//! Decodes responses, and why there is no typed response.

use serde::de::DeserializeOwned;
use switchboard_wire::jsonrpc::message::Payload;
use thiserror::Error;

use crate::request::error::RequestError;

/// Why a typed request has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TypedRequestError {
    /// The request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The response does not have the form that the protocol requires.
    #[error("the response of `{server}` to `{method}` is not valid")]
    InvalidResponse {
        /// The server.
        server: String,
        /// The method.
        method: &'static str,
        /// The first difference.
        #[source]
        error: serde_json::Error,
    },
}

/// Decodes the response of a server to a method.
pub(crate) fn decode<T: DeserializeOwned>(
    server: &str,
    method: &'static str,
    response: &Payload,
) -> Result<T, TypedRequestError> {
    response.decode().map_err(|error| TypedRequestError::InvalidResponse {
        server: server.to_owned(),
        method,
        error,
    })
}

/// The bytes of a member of a response.
pub(crate) fn raw_payload(raw: &serde_json::value::RawValue) -> Payload {
    Payload::from_json(raw.get().to_owned().into())
}
