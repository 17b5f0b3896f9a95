//! Tests of the library as an embedding program uses it.

mod authenticating;
mod browser;
mod built_in;
mod calls;
mod changes;
mod connectors;
mod counselling;
mod engine;
mod examples;
mod following;
mod headers_helper;
mod ide;
mod in_process;
mod lanes;
mod load;
mod pools;
mod remembering;
mod starting;
mod subscriptions;
mod support;
mod web_zoo;
mod yielded;
mod zoo;
