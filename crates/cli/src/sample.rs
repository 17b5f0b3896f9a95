//! A sample configuration, embedded: every scope that people write to, read and judged by the real code.

use switchboard::config::cascade::{self, Inputs};
use switchboard::config::layer::{Layer, Naming, Shape};
use switchboard::config::policy::Authority;
use switchboard::config::scope::Scope;
use switchboard::config::settings::Settings;
use switchboard::config::source::Source;
use switchboard::load::Configuration;

const DYNAMIC: &str = r#"{"mcpServers": {
  "time": {"command": "uvx", "args": ["mcp-server-time"]}
}}"#;

const PROJECT: &str = r#"{"mcpServers": {
  "github": {"type": "http", "url": "https://api.example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN:-none}"}},
  "database": {"command": "uvx", "args": ["mcp-server-postgres", "postgres://app:pw@db.internal/main"]}
}}"#;

const LOCAL: &str = r#"{"mcpServers": {
  "github": {"command": "github-mcp", "args": ["--token", "not-shown"]}
}}"#;

const USER: &str = r#"{
  "mcpServers": {
    "github": {"command": "github-mcp"},
    "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "~/notes"]},
    "scraper": {"type": "sse", "url": "https://scraper.example.net/sse"}
  },
  "deniedMcpServers": [{"serverUrl": "https://*.example.net/*"}]
}"#;

const PLUGIN: &str = r#"{"mcpServers": {
  "fs": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "~/notes"]}
}}"#;

/// The sample, resolved.
pub fn configuration() -> Configuration {
    let file = |scope, path: &str, text| {
        Layer::read(&Source::file(scope, path), text, Naming::Plain, Shape::Wrapped)
    };
    let source = Source::file(Scope::User, "sample/settings.json");
    let user = Settings::read(&source, USER, Authority::Person);
    let plugin = Source::file(Scope::Managed, "sample/plugins/notes/.mcp.json");
    let inputs = Inputs {
        layers: vec![
            file(Scope::Dynamic, "sample/extra.json", DYNAMIC),
            file(Scope::Project, "sample/.mcp.json", PROJECT),
            file(Scope::Local, "sample/local.json", LOCAL),
            user.layer,
            Layer::read(&plugin, PLUGIN, Naming::Plugin("notes"), Shape::Wrapped),
        ],
        policy: user.policy.clone(),
        ..Inputs::default()
    };
    Configuration {
        effective: cascade::resolve(inputs),
        looked_at: Vec::new(),
        project_root: "sample".into(),
        policy: user.policy,
        disabled: Vec::new(),
        rules: switchboard::config::permission::Rules::default(),
        hooks: Vec::new(),
    }
}
