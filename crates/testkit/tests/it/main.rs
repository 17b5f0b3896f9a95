//! The scripted server, driven by hand: lines, HTTP and WebSocket frames of our own making.

mod by_frames;
mod by_http;
mod by_lines;
mod client;
mod eras;
mod http;
mod http_zoo;
mod tools;
mod zoo;
