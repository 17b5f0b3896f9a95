//! The catalogue that clients see: names, lists as bytes, capabilities, and which server owns what. Built anew when a
//! server, its lists or the pool changes; requests only read it.

pub(crate) mod capabilities;
pub(crate) mod catalogue;
pub(crate) mod first_lists;
pub(crate) mod options;
pub(crate) mod pages;
pub(crate) mod search;
pub(crate) mod server;
pub(crate) mod sharing;
mod titles;
