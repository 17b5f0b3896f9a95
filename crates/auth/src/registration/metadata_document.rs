//! The client metadata document that describes us to authorization servers (OAuth client ID metadata documents). A user
//! or an administrator hosts it; its URL is the client ID.

use serde_json::{Value, json};
use url::Url;

use super::client::ClientAuthMethod;

/// The path of our redirect URIs.
pub(crate) const CALLBACK_PATH: &str = "/callback";

/// Builds the document for its URL. Loopback redirect URIs match with any port (RFC 8252); fixed callback ports are
/// listed too, because some authorization servers compare ports.
pub fn client_metadata_document(url: &Url, client_name: &str, callback_ports: &[u16]) -> Value {
    let mut redirects: Vec<String> =
        ["127.0.0.1", "localhost"].map(|host| format!("http://{host}{CALLBACK_PATH}")).to_vec();
    let ports = callback_ports.iter();
    redirects.extend(ports.map(|port| format!("http://localhost:{port}{CALLBACK_PATH}")));
    json!({
        "client_id": url.as_str(),
        "client_name": client_name,
        "application_type": "native",
        "redirect_uris": redirects,
        "grant_types": [
            "authorization_code",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code",
        ],
        "response_types": ["code"],
        "token_endpoint_auth_method": ClientAuthMethod::None.name(),
    })
}
