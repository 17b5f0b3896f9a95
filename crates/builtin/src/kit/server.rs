//! An in-process server: its identity, tools, resources and prompts. `connection` serves each client.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value as Json, json};
use switchboard_wire::server::ServerIdentity;

use crate::kit::change_notifier::{ChangeNotifier, ServerChange};
use crate::kit::prompt::Prompt;
use crate::kit::request_state::RequestStates;
use crate::kit::resource::ResourceProvider;
use crate::kit::tool::Tool;

/// An in-process server.
pub struct Server {
    name: String,
    title: Option<String>,
    version: String,
    instructions: Option<String>,
    tools: RwLock<BTreeMap<String, Tool>>,
    resources: Option<Arc<dyn ResourceProvider>>,
    prompts: Vec<Prompt>,
    changes: ChangeNotifier,
    pub(crate) request_states: RequestStates,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.name)
    }
}

impl Server {
    /// A server without tools, resources and prompts.
    pub fn new(name: &str, version: &str) -> Server {
        Server {
            name: name.to_owned(),
            title: None,
            version: version.to_owned(),
            instructions: None,
            tools: RwLock::default(),
            resources: None,
            prompts: Vec::new(),
            changes: ChangeNotifier::default(),
            request_states: RequestStates::default(),
        }
    }

    /// Sets the display name.
    pub fn title(mut self, title: &str) -> Server {
        self.title = Some(title.to_owned());
        self
    }

    /// Sets the instructions for models.
    pub fn instructions(mut self, instructions: &str) -> Server {
        self.instructions = Some(instructions.to_owned());
        self
    }

    /// Adds a tool.
    pub fn tool(self, tool: Tool) -> Server {
        self.add_tool(tool);
        self
    }

    /// Sets the resources, and the notifier of their changes.
    pub fn resources(
        mut self,
        resources: Arc<dyn ResourceProvider>,
        changes: &ChangeNotifier,
    ) -> Server {
        self.resources = Some(resources);
        self.changes = changes.clone();
        self
    }

    /// Adds a prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Server {
        self.prompts.push(prompt);
        self
    }

    /// Adds or replaces a tool at any time and notifies the clients.
    pub fn add_tool(&self, tool: Tool) {
        let name = tool.name().to_owned();
        self.tools.write().unwrap_or_else(PoisonError::into_inner).insert(name, tool);
        self.changes.notify(ServerChange::ToolListChanged);
    }

    /// Removes a tool at any time and notifies the clients. Running calls continue.
    pub fn remove_tool(&self, name: &str) -> Option<Tool> {
        let removed = self.tools.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.changes.notify(ServerChange::ToolListChanged);
        removed
    }

    pub(crate) fn find_tool(&self, name: &str) -> Option<Tool> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn tool_list(&self) -> Vec<Json> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        tools.values().map(Tool::to_json).collect()
    }

    pub(crate) fn resource_provider(&self) -> Option<&Arc<dyn ResourceProvider>> {
        self.resources.as_ref()
    }

    pub(crate) fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    pub(crate) fn changes(&self) -> &ChangeNotifier {
        &self.changes
    }

    pub(crate) fn identity(&self) -> ServerIdentity {
        let mut capabilities = Map::new();
        let mut declare = |name: &str, options: Json| capabilities.insert(name.to_owned(), options);
        declare("logging", json!({}));
        declare("tools", json!({"listChanged": true}));
        if self.resources.is_some() {
            declare("resources", json!({"listChanged": true, "subscribe": true}));
        }
        if !self.prompts.is_empty() {
            declare("prompts", json!({}));
        }
        if self.resources.is_some() || !self.prompts.is_empty() {
            declare("completions", json!({}));
        }
        ServerIdentity {
            name: self.name.clone(),
            title: self.title.clone(),
            version: self.version.clone(),
            instructions: self.instructions.clone(),
            capabilities,
        }
    }
}
