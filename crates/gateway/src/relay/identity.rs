//! How the gateway introduces itself to a principal, in the handshake of either era.

use std::sync::Arc;

use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::server::{ServerIdentity, ServerSession};

use super::{Relay, VERSION};
use crate::exposed::capabilities;
use crate::method::Method;

impl Relay {
    /// The gateway's name, capabilities and instructions.
    pub(crate) fn server_identity(&self, era: Era, principal: &Arc<str>) -> ServerIdentity {
        let catalogue = self.catalogue();
        let is_visible = |server: &str| self.shows_server(principal, server);
        ServerIdentity {
            name: "switchboard".to_owned(),
            title: Some("Switchboard".to_owned()),
            version: VERSION.to_owned(),
            instructions: capabilities::instructions(&catalogue.instructing_servers, is_visible),
            capabilities: catalogue.capabilities(era).clone(),
        }
    }

    /// The result of `server/discover`.
    pub(crate) fn discover(&self, principal: &Arc<str>) -> Payload {
        let session = ServerSession::new(self.server_identity(Era::Modern, principal));
        session.encode_result(Era::Modern, Method::Discover.as_str(), session.discover())
    }
}
