//! Client registration: the client that we are to an authorization server, whether configured, described by a
//! metadata document, or registered dynamically (RFC 7591). Each client belongs to one issuer.

mod choice;
mod client;
mod dynamic;
mod metadata_document;

pub use choice::{ClientChoice, choose_client};
pub use client::{
    ClientAuthMethod, ClientConfig, ClientCredential, ClientProvenance, ConfiguredClient,
    OAuthClient,
};
pub use dynamic::{
    RegistrationError, RegistrationRequest, parse_registration, registration_request,
};
pub(crate) use metadata_document::CALLBACK_PATH;
pub use metadata_document::client_metadata_document;
