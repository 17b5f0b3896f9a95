//! Resources and skills of servers.

use switchboard_wire::jsonrpc::message::Payload;

use super::Host;
use crate::connection::dedicated::DedicatedConnection;
use crate::request::error::RequestError;
use crate::request::server_request::ServerRequest;
use crate::request::typed::resource::ReadResource;
use crate::resources::skills;
use crate::resources::skills::{Skill, SkillError};
use crate::resources::subscription;
use crate::resources::subscription::{SubscribeError, Subscription};

impl Host {
    /// Reads a resource, from the cache where it is still valid, and returns the response without decoding it.
    pub async fn read_resource_raw(
        &self,
        server: &str,
        request: ReadResource,
    ) -> Result<Payload, RequestError> {
        self.services.resources().read(server, &request.uri, request.timeout).await
    }

    /// Reads a resource for one of several readers, such as the principals of a gateway: with this request, or from the
    /// cache where an earlier response to this reader (or one that is the same for all) is still valid.
    pub async fn read_resource_for(
        &self,
        server: &str,
        (reader, uri): (&str, &str),
        request: &ServerRequest,
    ) -> Result<Payload, RequestError> {
        self.services.resources().read_for(server, (reader, uri), request).await
    }

    /// Whether a server has resources. Connects to it where it is not connected.
    pub async fn has_resources(&self, server: &str) -> Result<bool, RequestError> {
        self.services.resources().has_resources(server).await
    }

    /// Subscribes to a resource, across reconnects. Connects to the server where it is not connected.
    pub async fn subscribe(&self, server: &str, uri: &str) -> Result<Subscription, SubscribeError> {
        self.subscribe_dedicated(server, uri, None).await
    }

    /// The same on a dedicated connection, or on the shared one where `dedicated` is `None`.
    pub async fn subscribe_dedicated(
        &self,
        server: &str,
        uri: &str,
        dedicated: Option<&DedicatedConnection>,
    ) -> Result<Subscription, SubscribeError> {
        subscription::subscribe(self.engine(), server, uri, dedicated).await
    }

    /// Lists the skills of a server, without reading their files.
    pub async fn skills(&self, server: &str) -> Result<Vec<Skill>, SkillError> {
        skills::list(self.services.requests(), server).await
    }

    /// Reads the main file of a skill, and checks it against the list.
    pub async fn load_skill(&self, server: &str, skill: &Skill) -> Result<String, SkillError> {
        skills::load(self.services.requests(), server, skill).await
    }

    /// Reads one file of a skill, and checks it against the list.
    pub async fn skill_file(
        &self,
        server: &str,
        skill: &Skill,
        uri: &str,
    ) -> Result<String, SkillError> {
        skills::read_file(self.services.requests(), server, skill, uri).await
    }
}
