//! The front door for programs: serves the pool to clients that come over HTTP.
//!
//! Every request passes [`head_guard::HeadGuard`] before anybody looks at its path. Who it comes from is the affair of
//! `switchboard-auth`, which owns every token.

pub mod head_guard;
