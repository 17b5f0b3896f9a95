//! Signing in and staying signed in, over real sockets.

mod auth_server;
mod http_fetcher;
mod login;
mod loopback_listener;
mod refresh;
mod resource_server;
mod shared_login_soak;
mod token_provider;
