//! The demonstration's server: there while nothing at all is configured, gone with the first server of one's own.

use switchboard::config::cascade::Server;
use switchboard::config::layer::{Layer, Naming, Shape};
use switchboard::config::scope::Scope;
use switchboard::config::source::{Place, Source};
use switchboard::in_process::InProcess;
use switchboard::load::Configuration;
use switchboard_builtin::demonstration;

use crate::session::Session;

/// The name it goes by.
pub const NAME: &str = demonstration::NAME;

/// Where it comes from, in lists.
const ORIGIN: &str = "built into swb";

/// Its definition.
pub fn layer() -> Layer {
    let text = format!(r#"{{"mcpServers": {{"{NAME}": {{"type": "sdk", "name": "{NAME}"}}}}}}"#);
    let source = Source::program(Scope::Dynamic, ORIGIN);
    Layer::read(&source, &text, Naming::Plain, Shape::Wrapped)
}

/// The server, where it is all there is.
pub fn alone(configuration: &Configuration) -> Option<&Server> {
    let is_ours = |place: &Place| *place == Place::Program(ORIGIN.to_owned());
    match &configuration.effective.servers[..] {
        [server] => Some(server).filter(|it| is_ours(&it.origin.source.place)),
        [] | [_, ..] => None,
    }
}

/// The server. Its notes lie in the data folder.
pub fn in_process(session: &Session) -> InProcess {
    let notes = session.machine.places.data.join("demonstration").join("notes.json");
    let server = demonstration::server(notes);
    InProcess::new(move |link| server.clone().serve(link))
}
