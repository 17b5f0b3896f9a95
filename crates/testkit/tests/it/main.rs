//! Tests of the servers that other tests talk to: those that follow a script, and real ones.

mod by_frames;
mod by_http;
mod by_lines;
mod client;
mod eras;
mod http;
mod http_zoo;
mod real;
mod tools;
mod zoo;
