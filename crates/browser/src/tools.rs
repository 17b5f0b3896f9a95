//! The tools: arguments, and what they say.

mod act;
mod batch;
mod displays;
mod evaluate;
mod files;
mod fill;
mod inspect;
mod read;
mod redaction;
mod registry;
mod tabs;

use std::sync::Arc;

use switchboard_builtin::kit::Tool;

use crate::session::Session;
use crate::settings::ScriptUse;
use crate::tools::registry::Registry;

/// Every tool.
pub(crate) fn all(session: &Arc<Session>) -> Vec<Tool> {
    let mut registry = Registry::new(session);
    tabs::add(&mut registry);
    read::add(&mut registry);
    act::add(&mut registry);
    fill::add(&mut registry);
    inspect::add(&mut registry);
    if session.settings.scripts == ScriptUse::Offered {
        evaluate::add(&mut registry);
    }
    files::add(&mut registry);
    displays::add(&mut registry);
    batch::add(registry)
}
