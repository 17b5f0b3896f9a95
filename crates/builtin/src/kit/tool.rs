//! A tool: its name, schemas, annotations and handler.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::{HandlerError, HandlerFuture};
use crate::kit::input_schema;
use crate::kit::tool_output::ToolOutput;

/// Where a definition says which of its arguments are calls of other tools.
pub const BATCH_KEY: &str = "switchboard/batch";

type Handler =
    Arc<dyn Fn(HandlerContext, Json) -> HandlerFuture<'static, ToolOutput> + Send + Sync>;

/// A tool.
#[derive(Clone)]
pub struct Tool {
    name: String,
    title: Option<String>,
    description: String,
    input_schema: Json,
    output_schema: Option<Json>,
    effect: ToolEffect,
    idempotency: Idempotency,
    world: World,
    /// Where its arguments have calls of other tools.
    batch: Option<Json>,
    handler: Handler,
}

/// Whether a tool changes or destroys anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolEffect {
    ReadOnly,
    NonDestructive,
    Destructive,
}

/// Whether repeated calls have a further effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Idempotency {
    NotIdempotent,
    Idempotent,
}

/// Whether a tool interacts with external entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum World {
    Closed,
    Open,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tool({})", self.name)
    }
}

impl Tool {
    /// A tool with an empty input schema. Like the protocol's defaults, it counts as destructive until a hint
    /// says otherwise.
    ///
    /// Arguments that do not deserialize into `A` are an error that the handler never sees. The handler is
    /// dropped when the client cancels the call.
    pub fn new<A, H, F>(name: &str, description: &str, handler: H) -> Tool
    where
        A: DeserializeOwned,
        H: Fn(HandlerContext, A) -> F + Send + Sync + 'static,
        F: Future<Output = Result<ToolOutput, HandlerError>> + Send + 'static,
    {
        let handler: Handler =
            Arc::new(move |context, arguments| match serde_json::from_value::<A>(arguments) {
                Ok(arguments) => Box::pin(handler(context, arguments)),
                Err(error) => {
                    let error = HandlerError::failed(format!("invalid arguments: {error}"));
                    Box::pin(std::future::ready(Err(error)))
                }
            });
        Tool {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            effect: ToolEffect::Destructive,
            idempotency: Idempotency::NotIdempotent,
            world: World::Closed,
            batch: None,
            handler,
        }
    }

    /// A tool whose input schema comes from the type of its arguments: names and types from the fields, descriptions
    /// from their doc comments, limits from `#[schemars(…)]`. A field with a default or of type `Option` is optional.
    /// Everything else is as with [`Tool::new`].
    pub fn typed<A, H, F>(name: &str, description: &str, handler: H) -> Tool
    where
        A: DeserializeOwned + JsonSchema,
        H: Fn(HandlerContext, A) -> F + Send + Sync + 'static,
        F: Future<Output = Result<ToolOutput, HandlerError>> + Send + 'static,
    {
        let schema = input_schema::of::<A>();
        Tool { input_schema: schema, ..Tool::new(name, description, handler) }
    }

    /// Sets the display name.
    pub fn title(mut self, title: &str) -> Tool {
        self.title = Some(title.to_owned());
        self
    }

    /// Sets the input schema: the schema of each argument, and the required ones.
    pub fn input_schema(mut self, properties: Json, required: &[&str]) -> Tool {
        self.input_schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        self
    }

    /// Sets the schema of the structured content.
    pub fn output_schema(mut self, schema: Json) -> Tool {
        self.output_schema = Some(schema);
        self
    }

    /// It changes nothing (`readOnlyHint`).
    pub fn read_only(mut self) -> Tool {
        self.effect = ToolEffect::ReadOnly;
        self
    }

    /// It only adds (`destructiveHint: false`).
    pub fn non_destructive(mut self) -> Tool {
        self.effect = ToolEffect::NonDestructive;
        self
    }

    /// It may change or remove things (`destructiveHint`). This is the default.
    pub fn destructive(mut self) -> Tool {
        self.effect = ToolEffect::Destructive;
        self
    }

    /// Repeated calls with the same arguments have no further effect (`idempotentHint`).
    pub fn idempotent(mut self) -> Tool {
        self.idempotency = Idempotency::Idempotent;
        self
    }

    /// It interacts with external entities (`openWorldHint`).
    pub fn open_world(mut self) -> Tool {
        self.world = World::Open;
        self
    }

    /// Its argument `list` is a list of calls of other tools of this server, where the member `tool` names the tool and
    /// `arguments` has its arguments. A client that knows this checks permissions for each of them.
    pub fn batch_of(mut self, list: &str, tool: &str, arguments: &str) -> Tool {
        self.batch = Some(json!({"list": list, "tool": tool, "arguments": arguments}));
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn to_json(&self) -> Json {
        let mut hints = Map::new();
        hints.insert("readOnlyHint".to_owned(), json!(self.effect == ToolEffect::ReadOnly));
        if self.effect != ToolEffect::ReadOnly {
            hints.insert(
                "destructiveHint".to_owned(),
                json!(self.effect == ToolEffect::Destructive),
            );
            hints.insert(
                "idempotentHint".to_owned(),
                json!(self.idempotency == Idempotency::Idempotent),
            );
        }
        hints.insert("openWorldHint".to_owned(), json!(self.world == World::Open));
        let mut tool = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": hints,
        });
        if let Some(title) = &self.title {
            tool["title"] = json!(title);
        }
        if let Some(output) = &self.output_schema {
            tool["outputSchema"] = output.clone();
        }
        if let Some(batch) = &self.batch {
            tool["_meta"] = json!({BATCH_KEY: batch});
        }
        tool
    }

    pub(crate) fn call(
        &self,
        context: HandlerContext,
        arguments: Json,
    ) -> HandlerFuture<'static, ToolOutput> {
        (self.handler)(context, arguments)
    }
}
