//! Tests of the agent in this process: an editor that is a JSON-RPC peer, a host with the demo server, and a model that
//! follows a list of steps.

mod elicitation;
mod harness;
mod sessions;
