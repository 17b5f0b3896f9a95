//! The options of `swb serve` for several replicas behind a load balancer.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use switchboard_gateway::SessionsWhileAway;

/// Options for replicas.
#[derive(Debug, Default, Args)]
pub struct ReplicaArgs {
    /// Share sessions, events and limits with other replicas in this Redis or Valkey: redis://HOST, rediss://HOST (TLS),
    /// redis-cluster://HOST,HOST, redis-sentinel://HOST,HOST/NAME; the password may be ${file:PATH}
    #[arg(long, value_name = "URL", requires_all = ["http", "seal_key"], help_heading = "Replicas")]
    pub store: Option<String>,
    /// Trust these certificate authorities (PEM) for the store, instead of the system's
    #[arg(long, value_name = "FILE", requires = "store", help_heading = "Replicas")]
    pub store_ca: Option<PathBuf>,
    /// Begin the names of all keys in the store with this; replicas with another one do not belong together
    #[arg(long, value_name = "NAME", default_value = "swb", requires = "store", help_heading = "Replicas", value_parser = parse_prefix)]
    pub store_prefix: String,
    /// What to do with new sessions while the store cannot be reached: refuse, or local (they stay on this replica)
    #[arg(long, value_name = "WHAT", default_value = "refuse", requires = "store", help_heading = "Replicas", value_parser = parse_while_away)]
    pub sessions_without_store: SessionsWhileAway,
    /// Seal what leaves the process with the keys of this file, one per line (32 bytes, Base64 or hexadecimal); may be
    /// repeated. The first key seals, all keys open [default: a key of this process]
    #[arg(long = "seal-key", value_name = "FILE", requires = "http", help_heading = "Replicas")]
    pub seal_key: Vec<PathBuf>,
    /// Receive requests of other replicas at this address, which they must be able to reach [default: the address of
    /// --http, with a free port]
    #[arg(long, value_name = "ADDRESS", requires = "seal_key", help_heading = "Replicas")]
    pub replica_address: Option<String>,
    /// Listen for other replicas at this address, where they reach it under another one (--replica-address): behind a
    /// proxy, or with addresses that are translated
    #[arg(long, value_name = "ADDRESS", requires = "replica_address", help_heading = "Replicas")]
    pub replica_listen: Option<SocketAddr>,
    /// Give no sessions to clients of older protocol versions. Then every replica serves every request without a store, and
    /// servers cannot ask these clients anything
    #[arg(long, requires = "http", help_heading = "Replicas")]
    pub stateless: bool,
}

fn parse_while_away(text: &str) -> Result<SessionsWhileAway, String> {
    match text {
        "refuse" => Ok(SessionsWhileAway::Refused),
        "local" => Ok(SessionsWhileAway::Local),
        _ => Err("expected `refuse` or `local`".to_owned()),
    }
}

/// Braces would choose the slot of a cluster.
fn parse_prefix(text: &str) -> Result<String, String> {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    match (1..=64).contains(&text.len()) && text.chars().all(is_allowed) {
        true => Ok(text.to_owned()),
        false => Err("expected up to 64 letters, digits, `-`, `_` and `.`".to_owned()),
    }
}
