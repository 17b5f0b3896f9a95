//! Sessions of programs over the control protocol: a scripted program at the other end of the lines.

mod channels;
mod hooks;
mod misuse;
mod permissions;
mod program;
mod requests;
mod servers;
mod turns;
