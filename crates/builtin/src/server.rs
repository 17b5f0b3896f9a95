//! A server: who it is and what it offers. Every link that it serves is a client of its own; `serving` talks to it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value as Json, json};
use switchboard_wire::link::Link;
use switchboard_wire::reception::Identity;

use crate::news::{Herald, News};
use crate::prompting::Prompt;
use crate::resource::Resources;
use crate::rounds::Rounds;
use crate::serving;
use crate::tooling::Tool;

/// A server in this process.
pub struct Server {
    name: String,
    title: Option<String>,
    version: String,
    instructions: Option<String>,
    tools: RwLock<BTreeMap<String, Tool>>,
    resources: Option<Arc<dyn Resources>>,
    prompts: Vec<Prompt>,
    herald: Herald,
    pub(crate) rounds: Rounds,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.name)
    }
}

impl Server {
    /// A server that offers nothing yet.
    pub fn new(name: &str, version: &str) -> Server {
        Server {
            name: name.to_owned(),
            title: None,
            version: version.to_owned(),
            instructions: None,
            tools: RwLock::default(),
            resources: None,
            prompts: Vec::new(),
            herald: Herald::default(),
            rounds: Rounds::default(),
        }
    }

    /// Its name for people.
    pub fn title(mut self, title: &str) -> Server {
        self.title = Some(title.to_owned());
        self
    }

    /// How to use it, for models.
    pub fn instructions(mut self, instructions: &str) -> Server {
        self.instructions = Some(instructions.to_owned());
        self
    }

    /// One tool more.
    pub fn tool(self, tool: Tool) -> Server {
        self.put_tool(tool);
        self
    }

    /// What it has to read, and who tells when that changes.
    pub fn resources(mut self, resources: Arc<dyn Resources>, herald: &Herald) -> Server {
        self.resources = Some(resources);
        self.herald = herald.clone();
        self
    }

    /// One prompt more.
    pub fn prompt(mut self, prompt: Prompt) -> Server {
        self.prompts.push(prompt);
        self
    }

    /// Adds a tool, or replaces the one of its name, while clients are there. They are told.
    pub fn put_tool(&self, tool: Tool) {
        let name = tool.name().to_owned();
        self.tools.write().unwrap_or_else(PoisonError::into_inner).insert(name, tool);
        self.herald.tell(News::Tools);
    }

    /// Takes a tool away while clients are there. They are told; calls under way go on.
    pub fn take_tool(&self, name: &str) -> Option<Tool> {
        let taken = self.tools.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.herald.tell(News::Tools);
        taken
    }

    /// Talks to one client until its link ends. Dropping the future ends it, and every call under way.
    pub async fn serve(self: Arc<Server>, link: impl Link) {
        serving::serve(self, link, std::future::pending()).await;
    }

    /// The same, until somebody wants it to end. Who waits for an answer then is told that there is none.
    pub async fn serve_until(self: Arc<Server>, link: impl Link, stop: impl Future<Output = ()>) {
        serving::serve(self, link, stop).await;
    }

    pub(crate) fn find_tool(&self, name: &str) -> Option<Tool> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn listed_tools(&self) -> Vec<Json> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        tools.values().map(Tool::listed).collect()
    }

    pub(crate) fn readable(&self) -> Option<&Arc<dyn Resources>> {
        self.resources.as_ref()
    }

    pub(crate) fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    pub(crate) fn herald(&self) -> &Herald {
        &self.herald
    }

    pub(crate) fn identity(&self) -> Identity {
        let mut capabilities = Map::new();
        let mut can = |name: &str, how: Json| capabilities.insert(name.to_owned(), how);
        can("logging", json!({}));
        can("tools", json!({"listChanged": true}));
        if self.resources.is_some() {
            can("resources", json!({"listChanged": true, "subscribe": true}));
        }
        if !self.prompts.is_empty() {
            can("prompts", json!({}));
        }
        if self.resources.is_some() || !self.prompts.is_empty() {
            can("completions", json!({}));
        }
        Identity {
            name: self.name.clone(),
            title: self.title.clone(),
            version: self.version.clone(),
            instructions: self.instructions.clone(),
            capabilities,
        }
    }
}
