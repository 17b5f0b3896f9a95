//! Requests to servers.

use switchboard_wire::jsonrpc::message::Payload;

use super::Host;
use crate::request::error::RequestError;
use crate::request::send::Authority;
use crate::request::server_request::ServerRequest;

impl Host {
    /// Sends a request to a server. The method must not be `tools/call`: [`Host::call`] calls tools.
    pub async fn request(
        &self,
        server: &str,
        request: ServerRequest,
    ) -> Result<Payload, RequestError> {
        self.services.requests().send(server, &request, Authority::Request).await
    }
}
