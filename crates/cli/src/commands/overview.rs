//! `swb` alone: what is configured here; where nothing is, what it would look like.

use switchboard::config::cascade::Server;

use crate::commands::list;
use crate::outcome::{Done, Failure};
use crate::sample;
use crate::session::Session;

/// Runs the command.
pub fn run(session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let has_something = !configuration.effective.servers.is_empty()
        || !configuration.effective.problems.is_empty()
        || configuration.effective.lock.is_some();
    if session.wants_json() || has_something {
        let listing = list::List { all: false, scope: None, require: Vec::new() };
        return list::run(&listing, session);
    }
    let sample = sample::configuration();
    let servers: Vec<&Server> = sample.effective.servers.iter().collect();
    let table = list::as_text(&servers, &sample, session);
    let mut text = String::from(
        "No MCP servers are configured yet. This is what Switchboard makes of a sample: one name in three\n\
         scopes, a project's server that nobody approved, one that a policy denies, and a plugin's twin.\n\n",
    );
    text.push_str(&table.text);
    text.push_str(
        "\nStart here:\n  \
         swb add files -- npx -y @modelcontextprotocol/server-filesystem .   a server of your own\n  \
         swb import --dry-run                                                what other programs have\n  \
         swb list                                                            where it was looked for\n  \
         swb --help                                                          everything else\n",
    );
    Ok(Done::text(text))
}
