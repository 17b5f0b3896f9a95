//! The corpus, replayed without libFuzzer.

mod corpus;
