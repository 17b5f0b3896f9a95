//! Tests of the servers that other tests talk to: those that follow a script, and real ones.

mod authority;
mod authority_zoo;
mod by_frames;
mod by_http;
mod by_lines;
mod by_login;
mod client;
mod connector_account;
mod eras;
mod http;
mod http_zoo;
mod real;
mod tools;
mod upstream;
mod zoo;
