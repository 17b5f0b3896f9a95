//! Loads the configuration files, and prints the servers that may start.
//!
//! `cargo run --package switchboard --example effective_configuration -- CONFIG_FOLDER WORKING_FOLDER`

use std::error::Error;
use std::path::PathBuf;

use switchboard::config::merge::ScopeFilter;
use switchboard::config::permission::PermissionRules;
use switchboard::config::template::Environment;
use switchboard::sources::Paths;
use switchboard::sources::loader::{LoadOptions, SettingSources, load};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(config), Some(working_folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: effective_configuration CONFIG_FOLDER WORKING_FOLDER".into());
    };
    let configuration = load(&LoadOptions {
        paths: Paths {
            data: config.join("data"),
            state: config.join("state"),
            managed: config.join("managed"),
            config,
        },
        working_folder: working_folder.canonicalize()?,
        environment: std::env::vars().collect::<Environment>(),
        dynamic: Vec::new(),
        settings: None,
        rules: PermissionRules::default(),
        setting_sources: SettingSources::default(),
        scope_filter: ScopeFilter::All,
        sdk_entries: switchboard::config::merge::SdkEntries::OfProgramLayers,
        connectors: switchboard::sources::loader::ConnectorUse::Allowed,
        plugins: Vec::new(),
        embedded: Vec::new(),
        fallback: None,
    });
    for server in configuration.effective.servers.iter().filter(|server| server.is_ready()) {
        println!("{} ({} scope, {})", server.name, server.scope(), server.origin);
    }
    Ok(())
}
