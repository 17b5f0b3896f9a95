//! The demonstration's server: there while nothing at all is configured, gone with the first server of one's own.

use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::merge::ResolvedServer;
use switchboard::config::scope::Scope;
use switchboard::config::source::{Source, SourceKind};
use switchboard::sources::loader::Configuration;
use switchboard_builtin::demo;

/// The name it goes by.
pub const NAME: &str = demo::NAME;

/// Where it comes from, in lists.
const DEMO_ORIGIN: &str = "built into swb";

/// Its definition.
pub fn layer() -> Layer {
    let text = format!(r#"{{"mcpServers": {{"{NAME}": {{"type": "sdk", "name": "{NAME}"}}}}}}"#);
    let source = Source::program(Scope::Dynamic, DEMO_ORIGIN);
    Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped)
}

/// The server, where it is all there is.
pub fn only_server(configuration: &Configuration) -> Option<&ResolvedServer> {
    let is_ours = |place: &SourceKind| *place == SourceKind::Program(DEMO_ORIGIN.to_owned());
    match &configuration.effective.servers[..] {
        [server] => Some(server).filter(|it| is_ours(&it.origin.source.kind)),
        [] | [_, ..] => None,
    }
}
