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
        "No MCP servers are configured yet. This is what Switchboard makes of a sample:\n\
         one name in three scopes, a project's server that nobody approved, one that a\n\
         policy denies, and a plugin's twin of one of your own.\n\n",
    );
    text.push_str(&table.text);
    text.push_str(
        "\nStart here:\n  \
         swb add NAME -- COMMAND …   a server of your own (or: swb add NAME URL)\n  \
         swb import --dry-run        what other programs have configured\n  \
         swb list                    where servers were looked for\n  \
         swb --help                  everything else\n",
    );
    Ok(Done::text(text))
}
