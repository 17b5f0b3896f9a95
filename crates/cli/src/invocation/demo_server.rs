//! The definition of the demo server, which is used while no server is configured.

use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::merge::ResolvedServer;
use switchboard::config::scope::Scope;
use switchboard::config::source::{Source, SourceKind};
use switchboard::sources::loader::Configuration;
use switchboard_builtin::demo;

/// The name of the demo server.
pub const NAME: &str = demo::NAME;

/// The origin that lists show for it.
const DEMO_ORIGIN: &str = "built into swb";

/// The configuration layer that defines it.
pub fn layer() -> Layer {
    let text = format!(r#"{{"mcpServers": {{"{NAME}": {{"type": "sdk", "name": "{NAME}"}}}}}}"#);
    let source = Source::program(Scope::Dynamic, DEMO_ORIGIN);
    Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped)
}

/// The demo server, if it is the only server.
pub fn only_server(configuration: &Configuration) -> Option<&ResolvedServer> {
    let is_ours = |place: &SourceKind| *place == SourceKind::Program(DEMO_ORIGIN.to_owned());
    match &configuration.effective.servers[..] {
        [server] => Some(server).filter(|it| is_ours(&it.origin.source.kind)),
        [] | [_, ..] => None,
    }
}
