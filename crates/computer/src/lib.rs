//! The computer server: pictures of an X11 desktop, pointer, keyboard, clipboard and windows, as an MCP server that runs
//! inside the process. It acts only in applications that the user has granted to the session.
//!
//! [`serve`] serves one client. The embedding program decides with [`display_environment`] which display is used, and
//! with [`Presence`] whether a user is there who can grant access.

mod access;
mod action;
mod action_arguments;
mod applications;
mod batch;
mod desktop;
pub mod display_environment;
mod error;
mod grants;
mod guide_prompt;
mod handed_out_pictures;
pub mod health;
mod picture;
mod server;
mod session;
mod settings;
mod shown_text;
mod tools;
mod x11;

pub use server::{ALIAS, NAME, TOOLS, serve};
pub use settings::{ComputerSettings, Presence};
pub use x11::own_terminal::Multiplexer;
