//! Tests of the library as an embedding program uses it.

mod browser;
mod builtin_tools;
mod calls;
mod channels;
mod config_watcher;
mod connectors;
mod dedicated_connections;
mod examples;
mod headers_helper;
mod ide;
mod in_process;
mod loader;
mod login_tool;
mod misbehaving_http;
mod misbehaving_programs;
mod persisted_state;
mod pool_updates;
mod prompts;
mod resource_subscriptions;
mod runtime_changes;
mod startup;
mod support;
mod tool_results;
mod transports;
