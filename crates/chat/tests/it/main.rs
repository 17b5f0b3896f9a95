//! Conversations and model clients, against scripted models and servers.

mod agent_loop;
mod end_to_end;
mod harness;
mod model_clients;
mod sampling;
mod scripted_model;
mod transcripts;
