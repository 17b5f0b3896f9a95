//! What tests rely on: that the servers they talk to are there and answer.

mod real;
