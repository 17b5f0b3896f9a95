//! The definition of the computer server, which `--computer` adds, and the rule that allows its tools: the server itself
//! asks the user for access.

use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::permission::{PermissionEffect, PermissionRules, ToolRule};
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard_computer::NAME;

use crate::exit::Exit;
use crate::invocation::session_flags::ComputerUse;
use crate::outcome::Failure;

/// The option.
const OPTION: &str = "--computer";

/// The configuration layers that define it.
pub fn layers(computer: ComputerUse) -> Vec<Layer> {
    match computer {
        ComputerUse::AsConfigured => Vec::new(),
        ComputerUse::AskedFor => {
            let text =
                format!(r#"{{"mcpServers": {{"{NAME}": {{"type": "sdk", "name": "{NAME}"}}}}}}"#);
            let source = Source::program(Scope::Dynamic, OPTION);
            vec![Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped)]
        }
    }
}

/// The rules of the options, with the one for the computer server. Deny rules still win.
pub fn with_rule(computer: ComputerUse, mut rules: PermissionRules) -> PermissionRules {
    match (computer, ToolRule::parse(&format!("mcp__{NAME}"))) {
        (ComputerUse::AskedFor, Ok(rule)) => {
            rules.add_from_option(OPTION, PermissionEffect::Allow, rule);
        }
        (ComputerUse::AskedFor, Err(_)) | (ComputerUse::AsConfigured, _) => {}
    }
    rules
}

/// The failure for a run in which no user converses.
pub fn no_user() -> Failure {
    let message = "--computer works only in an interactive session: someone must grant access and watch the screen";
    Failure::new(Exit::Usage, message)
        .hint("run `swb --computer` in a terminal, without -p and --json")
}
