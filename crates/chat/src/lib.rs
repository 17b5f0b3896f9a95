//! A conversation between a user, a model and the pool's tools: the agent loop, the model clients and the transcripts.
//! No terminal: a UI sends messages through a [`Conversation`](conversation::handle::Conversation) and receives
//! [`ConversationEvent`](conversation::event::ConversationEvent)s.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use std::sync::Arc;
//! use std::time::Duration;
//! use switchboard::{Host, Paths};
//! use switchboard_chat::conversation::event::ConversationEvent;
//! use switchboard_chat::conversation::handle::Conversation;
//! use switchboard_chat::conversation::setup::{ConversationSetup, DEFAULT_MAX_ROUNDS};
//! use switchboard_chat::message::ContentBlock;
//! use switchboard_chat::model::scripted::ScriptedModel;
//!
//! let folder = tempfile::tempdir()?;
//! let host = Host::builder(Paths::in_dir(folder.path())).start().await?;
//! let (conversation, mut events, task) = Conversation::start(ConversationSetup {
//!     call_context: Arc::new(host.call_context()?),
//!     host: host.clone(),
//!     // The model of the demo; `model::client` has the clients of model services.
//!     model: Some(Arc::new(ScriptedModel::demo(Duration::ZERO))),
//!     system_prompt: "Answer briefly.".into(),
//!     history: Vec::new(),
//!     max_rounds: DEFAULT_MAX_ROUNDS,
//!     hooks: Vec::new(),
//!     structured_output: None,
//!     channels: None,
//! });
//! conversation.send(vec![ContentBlock::Text { text: "Hello".to_owned() }]).await;
//! let mut response = String::new();
//! while let Some(event) = events.recv().await {
//!     match event {
//!         ConversationEvent::Text(text) => response.push_str(&text),
//!         ConversationEvent::TurnEnded(_) => break,
//!         _ => {}
//!     }
//! }
//! assert!(!response.is_empty());
//! drop((conversation, events));
//! task.await?;
//! host.shutdown().await;
//! # Ok(())
//! # })
//! # }
//! ```

pub mod channel;
pub mod control;
pub mod conversation;
pub mod ide;
pub mod message;
pub mod model;
pub mod system_prompt;
pub mod transcript;
