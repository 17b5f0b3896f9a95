//! The definition of the browser server, which `--browser` or a setting adds, its options, and the rules that allow its
//! tools. Scripts, uploads and saving downloads are not allowed by them, so that they need a permission.

use clap::Args;
use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::permission::{PermissionEffect, PermissionRules, ToolRule};
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard_browser::{NAME, OriginPattern, UNQUESTIONED};

use crate::exit::Exit;
use crate::outcome::Failure;

/// The option.
const OPTION: &str = "--browser";

/// The options of the browser server.
#[derive(Debug, Clone, Default, Args)]
pub struct BrowserOptions {
    /// Give the model a web browser
    #[arg(long, global = true, alias = "chrome", help_heading = "Browser")]
    pub browser: bool,
    /// Show the browser's window
    #[arg(long, global = true, conflicts_with = "cdp_endpoint", help_heading = "Browser")]
    pub browser_window: bool,
    /// Keep cookies and logins in this profile
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        conflicts_with = "cdp_endpoint",
        help_heading = "Browser"
    )]
    pub browser_profile: Option<String>,
    /// Origins that may be opened without a question, such as example.com, *.example.com or localhost:3000
    #[arg(long, global = true, value_name = "ORIGINS", value_delimiter = ',', value_parser = OriginPattern::parse, help_heading = "Browser")]
    pub browser_origins: Vec<OriginPattern>,
    /// Use a browser that already runs, at its debugging endpoint such as http://127.0.0.1:9222
    #[arg(long, global = true, value_name = "URL", help_heading = "Browser")]
    pub cdp_endpoint: Option<String>,
}

impl BrowserOptions {
    /// Whether an option asks for the browser. Those about how it works do, too.
    pub fn is_asked_for(&self) -> bool {
        self.browser
            || self.browser_window
            || self.browser_profile.is_some()
            || self.cdp_endpoint.is_some()
            || !self.browser_origins.is_empty()
    }
}

/// Whether the browser server is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BrowserUse {
    /// Only where a configuration names it.
    #[default]
    AsConfigured,
    /// An option or a setting asks for it.
    AskedFor,
}

/// The configuration layers that define it.
pub fn layers(browser: BrowserUse) -> Vec<Layer> {
    match browser {
        BrowserUse::AsConfigured => Vec::new(),
        BrowserUse::AskedFor => {
            let text =
                format!(r#"{{"mcpServers": {{"{NAME}": {{"type": "sdk", "name": "{NAME}"}}}}}}"#);
            let source = Source::program(Scope::Dynamic, OPTION);
            vec![Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped)]
        }
    }
}

/// The rules of the options, with those for the browser server. Deny rules still win.
pub fn with_rules(browser: BrowserUse, mut rules: PermissionRules) -> PermissionRules {
    match browser {
        BrowserUse::AsConfigured => {}
        BrowserUse::AskedFor => {
            let parsed = UNQUESTIONED
                .iter()
                .filter_map(|it| ToolRule::parse(&format!("mcp__{NAME}__{it}")).ok());
            for rule in parsed {
                rules.add_from_option(OPTION, PermissionEffect::Allow, rule);
            }
        }
    }
    rules
}

/// The failure for a browser that an administrator forbids.
pub fn forbidden() -> Failure {
    let message = "the browser server is switched off by your administrator";
    Failure::new(Exit::Policy, message).hint("leave out `--browser` and the options about it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allowed_call_is_a_rule() {
        let rules = UNQUESTIONED.map(|it| ToolRule::parse(&format!("mcp__{NAME}__{it}")));
        assert!(rules.iter().all(Result::is_ok), "{rules:?}");
    }
}
