//! Tests of the library as an embedding program uses it.

mod engine;
mod load;
mod support;
