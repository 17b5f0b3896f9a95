//! Conversations and model clients, against scripted models and servers.

mod chronicles;
mod stage;
mod talks;
