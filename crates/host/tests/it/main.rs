//! Tests of the library as an embedding program uses it.

mod calls;
mod changes;
mod engine;
mod following;
mod load;
mod remembering;
mod starting;
mod subscriptions;
mod support;
mod web_zoo;
mod yielded;
mod zoo;
