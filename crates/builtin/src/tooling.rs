//! A tool: its name, what it takes and gives, what it may do to the world, and the handler behind it.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use crate::content::Output;
use crate::context::Context;
use crate::refusal::{Stop, Working};

type Handler = Arc<dyn Fn(Context, Json) -> Working<'static, Output> + Send + Sync>;

/// A tool.
#[derive(Clone)]
pub struct Tool {
    name: String,
    title: Option<String>,
    description: String,
    input: Json,
    output: Option<Json>,
    effect: Effect,
    again: Again,
    reach: Reach,
    handler: Handler,
}

/// What a tool does to what it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Adds,
    Destroys,
}

/// What calling it a second time does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    DoesMore,
    ChangesNothing,
}

/// How far it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Inside,
    World,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tool({})", self.name)
    }
}

impl Tool {
    /// A tool that takes nothing, unless told otherwise, and may destroy things inside of what it works on.
    ///
    /// What the handler takes is read from the arguments; those that do not fit never reach it. A handler is
    /// dropped when its caller cancels the call.
    pub fn new<A, H, F>(name: &str, description: &str, handler: H) -> Tool
    where
        A: DeserializeOwned,
        H: Fn(Context, A) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Output, Stop>> + Send + 'static,
    {
        let handler: Handler =
            Arc::new(move |context, arguments| match serde_json::from_value::<A>(arguments) {
                Ok(arguments) => Box::pin(handler(context, arguments)),
                Err(error) => {
                    let stop = Stop::failed(format!("the arguments do not fit: {error}"));
                    Box::pin(std::future::ready(Err(stop)))
                }
            });
        Tool {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input: json!({"type": "object"}),
            output: None,
            effect: Effect::Destroys,
            again: Again::DoesMore,
            reach: Reach::Inside,
            handler,
        }
    }

    /// Its name for people.
    pub fn title(mut self, title: &str) -> Tool {
        self.title = Some(title.to_owned());
        self
    }

    /// What it takes: a schema for each argument, and those that must be there.
    pub fn takes(mut self, properties: Json, required: &[&str]) -> Tool {
        self.input = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        self
    }

    /// The schema of what it gives to machines.
    pub fn gives(mut self, schema: Json) -> Tool {
        self.output = Some(schema);
        self
    }

    /// It changes nothing.
    pub fn reads(mut self) -> Tool {
        self.effect = Effect::Reads;
        self
    }

    /// It adds something and takes nothing away.
    pub fn adds(mut self) -> Tool {
        self.effect = Effect::Adds;
        self
    }

    /// Calling it twice does no more than calling it once.
    pub fn idempotent(mut self) -> Tool {
        self.again = Again::ChangesNothing;
        self
    }

    /// It deals with others than its server.
    pub fn reaches_out(mut self) -> Tool {
        self.reach = Reach::World;
        self
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn listed(&self) -> Json {
        let mut hints = Map::new();
        hints.insert("readOnlyHint".to_owned(), json!(self.effect == Effect::Reads));
        if self.effect != Effect::Reads {
            hints.insert("destructiveHint".to_owned(), json!(self.effect == Effect::Destroys));
            hints.insert("idempotentHint".to_owned(), json!(self.again == Again::ChangesNothing));
        }
        hints.insert("openWorldHint".to_owned(), json!(self.reach == Reach::World));
        let mut tool = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input,
            "annotations": hints,
        });
        if let Some(title) = &self.title {
            tool["title"] = json!(title);
        }
        if let Some(output) = &self.output {
            tool["outputSchema"] = output.clone();
        }
        tool
    }

    pub(crate) fn call(&self, context: Context, arguments: Json) -> Working<'static, Output> {
        (self.handler)(context, arguments)
    }
}
