//! The client metadata document that a user or an administrator hosts, for authorization servers that support such
//! documents.

use serde_json::Value;
use switchboard_auth::registration;
use url::Url;

use crate::login::profile::CLIENT_NAME;

/// The document to host at its URL. `callback_ports` are the fixed ports of the entries that use the document.
pub fn client_metadata_document(url: &Url, callback_ports: &[u16]) -> Value {
    registration::client_metadata_document(url, CLIENT_NAME, callback_ports)
}
