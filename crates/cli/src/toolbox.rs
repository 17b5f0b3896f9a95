//! The pool of all tools of the servers that are connected, under the rules of the configuration.

use std::collections::BTreeSet;

use switchboard::catalogue::List;
use switchboard::config::entry::ToolFilter;
use switchboard::config::permission;
use switchboard::config::scope::Scope;
use switchboard::engine::Snapshot;
use switchboard::load::Configuration;
use switchboard::pool::naming::{Origin, sanitised};
use switchboard::pool::{self, Pool, Source};

/// All tools of the servers that are connected, under the rules.
pub fn pool(configuration: &Configuration, snapshot: &Snapshot) -> Pool {
    let none = ToolFilter::default();
    let filter = |name: &str| {
        let winner = configuration.effective.winner(name);
        winner.and_then(|it| it.spec.as_ref()).map_or(&none, |spec| &spec.common.tools)
    };
    let sources = snapshot.servers.values().map(|view| Source {
        server: &view.name,
        origin: match view.scope {
            Scope::Connectors => Origin::Connector,
            Scope::Enterprise
            | Scope::Dynamic
            | Scope::Project
            | Scope::Local
            | Scope::User
            | Scope::Managed => Origin::Configured,
        },
        tools: view.catalogue.items(List::Tools),
        filter: filter(&view.name),
    });
    let hidden = |server: &str, tool: &str| {
        permission::hides(&configuration.rules, &sanitised(server), &sanitised(tool)).is_some()
    };
    Pool::default().next(sources, &pool::Rules { hidden: &hidden, reserved: &BTreeSet::new() })
}
