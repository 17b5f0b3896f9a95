//! Signing in and staying signed in, over real sockets.

mod authority;
mod fetching;
mod keeping;
mod listening;
mod login;
mod renewing;
mod soak;
mod verifying;
