//! Prompts: messages made from arguments, which can have completions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::{HandlerError, HandlerFuture};

type Handler = Arc<
    dyn Fn(HandlerContext, PromptArguments) -> HandlerFuture<'static, Vec<PromptMessage>>
        + Send
        + Sync,
>;
type Completer = Arc<dyn Fn() -> HandlerFuture<'static, Vec<String>> + Send + Sync>;

/// The arguments of a prompt request.
pub type PromptArguments = BTreeMap<String, String>;

/// A prompt.
#[derive(Clone)]
pub struct Prompt {
    name: String,
    description: String,
    arguments: Vec<PromptArgument>,
    handler: Handler,
}

/// One argument of a prompt.
#[derive(Clone)]
pub struct PromptArgument {
    name: String,
    description: String,
    is_required: bool,
    completer: Option<Completer>,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMessage {
    /// The role of the speaker.
    pub role: Role,
    /// The text.
    pub text: String,
}

/// The role of a message's speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prompt({})", self.name)
    }
}

impl fmt::Debug for PromptArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PromptArgument({})", self.name)
    }
}

impl Prompt {
    /// A prompt without arguments.
    pub fn new<H, F>(name: &str, description: &str, handler: H) -> Prompt
    where
        H: Fn(HandlerContext, PromptArguments) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<PromptMessage>, HandlerError>> + Send + 'static,
    {
        Prompt {
            name: name.to_owned(),
            description: description.to_owned(),
            arguments: Vec::new(),
            handler: Arc::new(move |context, arguments| Box::pin(handler(context, arguments))),
        }
    }

    /// Adds an argument.
    pub fn argument(mut self, argument: PromptArgument) -> Prompt {
        self.arguments.push(argument);
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn to_json(&self) -> Json {
        let argument = |it: &PromptArgument| json!({"name": it.name, "description": it.description, "required": it.is_required});
        json!({
            "name": self.name,
            "description": self.description,
            "arguments": self.arguments.iter().map(argument).collect::<Vec<_>>(),
        })
    }

    /// Renders the messages, after checking the arguments.
    pub(crate) async fn render(
        &self,
        context: HandlerContext,
        arguments: PromptArguments,
    ) -> Result<Json, HandlerError> {
        let missing =
            self.arguments.iter().find(|it| it.is_required && !arguments.contains_key(&it.name));
        if let Some(argument) = missing {
            return Err(HandlerError::invalid_params(format!("`{}` is missing", argument.name)));
        }
        let known = |name: &String| self.arguments.iter().any(|it| it.name == *name);
        if !arguments.keys().all(known) {
            return Err(HandlerError::invalid_params("unknown argument"));
        }
        let messages = (self.handler)(context, arguments).await?;
        let message = |it: &PromptMessage| {
            let role = match it.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            json!({"role": role, "content": {"type": "text", "text": it.text}})
        };
        let messages: Vec<Json> = messages.iter().map(message).collect();
        Ok(json!({"description": self.description, "messages": messages}))
    }

    pub(crate) async fn complete(&self, argument: &str) -> Result<Vec<String>, HandlerError> {
        let argument = self.arguments.iter().find(|it| it.name == argument);
        match argument.and_then(|it| it.completer.as_ref()) {
            Some(completer) => completer().await,
            None => Ok(Vec::new()),
        }
    }
}

impl PromptArgument {
    /// A required argument.
    pub fn required(name: &str, description: &str) -> PromptArgument {
        PromptArgument {
            name: name.to_owned(),
            description: description.to_owned(),
            is_required: true,
            completer: None,
        }
    }

    /// An optional argument.
    pub fn optional(name: &str, description: &str) -> PromptArgument {
        PromptArgument { is_required: false, ..PromptArgument::required(name, description) }
    }

    /// Sets the values to complete from. Those that start with the typed text are suggested.
    pub fn with_completions<C, F>(mut self, completer: C) -> PromptArgument
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<String>, HandlerError>> + Send + 'static,
    {
        self.completer = Some(Arc::new(move || Box::pin(completer())));
        self
    }
}

impl PromptMessage {
    /// A message of the user.
    pub fn user(text: impl Into<String>) -> PromptMessage {
        PromptMessage { role: Role::User, text: text.into() }
    }
}
