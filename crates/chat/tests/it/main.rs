//! Conversations and model clients, against scripted models and servers.

mod agent_loop;
mod channels;
mod control;
mod end_to_end;
mod harness;
mod ide;
mod model_clients;
mod sampling;
mod scripted_model;
mod transcripts;
