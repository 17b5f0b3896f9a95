//! The token endpoint: grants as form fields, the request, and the parsed response.
//! Sending requests is left to `flow` and `token_provider`, storing tokens to `token_store`.

pub mod grant;
pub mod request;
pub mod response;
