//! The browser part of a login: the loopback listener for the redirect, the page shown afterwards, and the flow
//! that waits for a redirect or for pasted text. Opening the browser is left to the caller's [`browser_flow::LoginPrompt`].

pub mod browser_flow;
pub mod loopback_listener;
pub(crate) mod result_page;
