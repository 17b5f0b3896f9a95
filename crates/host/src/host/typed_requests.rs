//! Typed requests: prompts, completions, resources and lists.

use std::sync::Arc;

use super::Host;
use crate::catalogue::lists::{Catalogue, ListKind};
use crate::pool::tool::Tool;
use crate::request::error::RequestError;
use crate::request::typed::completion::{Complete, Completion};
use crate::request::typed::definitions::{
    PromptDefinition, ResourceDefinition, ResourceTemplateDefinition, definitions,
};
use crate::request::typed::prompt::{GetPrompt, PromptMessages};
use crate::request::typed::resource::{ReadResource, ResourceContents};
use crate::request::typed::response::TypedRequestError;

impl Host {
    /// Gets the messages of a prompt.
    pub async fn get_prompt(
        &self,
        server: &str,
        request: GetPrompt,
    ) -> Result<PromptMessages, TypedRequestError> {
        PromptMessages::decode(server, self.request(server, request.into_request()).await?)
    }

    /// Asks a server for values of an argument.
    pub async fn complete(
        &self,
        server: &str,
        request: Complete,
    ) -> Result<Completion, TypedRequestError> {
        Completion::decode(server, self.request(server, request.into_request()).await?)
    }

    /// Reads a resource, from the cache where it is still valid.
    pub async fn read_resource(
        &self,
        server: &str,
        request: ReadResource,
    ) -> Result<ResourceContents, TypedRequestError> {
        let response = self.read_resource_raw(server, request).await?;
        ResourceContents::decode(server, response)
    }

    /// The tools of a server, as the pool exposes them. Connects to the server where it is not connected.
    pub async fn tools(&self, server: &str) -> Result<Vec<Arc<Tool>>, RequestError> {
        self.ensure_connected(server).await?;
        let pool = self.settled_pool().await;
        Ok(pool.tools().iter().filter(|it| it.server == server).cloned().collect())
    }

    /// The prompts of a server. Connects to the server where it is not connected.
    pub async fn prompts(&self, server: &str) -> Result<Vec<PromptDefinition>, RequestError> {
        let catalogue = self.catalogue(server).await?;
        Ok(definitions(&catalogue, ListKind::Prompts, PromptDefinition::new))
    }

    /// The resources of a server. Connects to the server where it is not connected.
    pub async fn resources(&self, server: &str) -> Result<Vec<ResourceDefinition>, RequestError> {
        let catalogue = self.catalogue(server).await?;
        Ok(definitions(&catalogue, ListKind::Resources, ResourceDefinition::new))
    }

    /// The resource templates of a server. Connects to the server where it is not connected.
    pub async fn resource_templates(
        &self,
        server: &str,
    ) -> Result<Vec<ResourceTemplateDefinition>, RequestError> {
        let catalogue = self.catalogue(server).await?;
        Ok(definitions(&catalogue, ListKind::ResourceTemplates, ResourceTemplateDefinition::new))
    }

    async fn catalogue(&self, server: &str) -> Result<Arc<Catalogue>, RequestError> {
        self.ensure_connected(server).await?;
        let handle = self.engine().connection(server);
        let handle = handle.ok_or_else(|| RequestError::UnknownServer(server.to_owned()))?;
        Ok(handle.view().catalogue.clone())
    }
}
