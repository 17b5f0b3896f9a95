//! Switching servers on and off: in the entry where it is the person's own, else in the person's settings.

use serde_json::json;
use switchboard::config::cascade::{Server, State};
use switchboard::config::edit::Edit;
use switchboard::config::shown::printable;
use switchboard::load::Configuration;

use crate::outcome::{Done, Failure};
use crate::session::{Session, WritableScope};
use crate::writing;

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// It may start.
    On,
    /// It may not.
    Off,
}

const LIST: &str = "disabledMcpServers";

/// Switches a server. `scope` says where to write it down, for those who want a particular place.
pub fn turn(
    session: &Session,
    name: &str,
    scope: Option<WritableScope>,
    position: Position,
) -> Result<Done, Failure> {
    let configuration = session.load()?;
    session.expect_unlocked(&configuration)?;
    let definitions = session.definitions(&configuration, name)?;
    let server = definitions[0];
    let changes = match position {
        Position::Off => vec![off(server, scope)],
        Position::On => on(session, &configuration, server),
    };
    let mut places = Vec::new();
    for (scope, edit) in changes {
        writing::edit_file(session, scope, &[edit])?;
        places.push(session.shown_path(&session.file_of(scope)));
    }
    let after = session.load()?;
    Ok(said(session, &after, name, position, &places))
}

/// A person's own entry is changed itself; of everybody else's entries only this person's view is.
fn off(server: &Server, wanted: Option<WritableScope>) -> (WritableScope, Edit) {
    let name = server.name.clone();
    let own = WritableScope::of(server.scope());
    let in_entry = match (own, wanted) {
        (Some(own), Some(wanted)) => own == wanted,
        (Some(own), None) => own != WritableScope::Project,
        (None, _) => false,
    };
    match own.filter(|_| in_entry) {
        Some(scope) => {
            let edit = Edit::SetKey { name, key: "disabled".to_owned(), value: Some(true.into()) };
            (scope, edit)
        }
        None => {
            let scope = wanted.filter(|it| *it != WritableScope::Project);
            let edit = Edit::AddToList { key: LIST.to_owned(), text: name };
            (scope.unwrap_or(WritableScope::Local), edit)
        }
    }
}

/// Takes back every switch that holds the server down.
fn on(
    session: &Session,
    configuration: &Configuration,
    server: &Server,
) -> Vec<(WritableScope, Edit)> {
    let mut changes = Vec::new();
    let own = WritableScope::of(server.scope()).filter(|scope| {
        writing::defined_in(configuration, &session.file_of(*scope), &server.name).is_some()
    });
    if let Some(scope) = own
        && server.entry.as_ref().is_some_and(|entry| entry.disabled)
    {
        let (name, key) = (server.name.clone(), "disabled".to_owned());
        changes.push((scope, Edit::SetKey { name, key, value: None }));
    }
    for scope in [WritableScope::Local, WritableScope::User] {
        let file = session.file_of(scope);
        let listed = configuration
            .disabled
            .iter()
            .any(|it| it.name == server.name && it.origin.source.path() == Some(file.as_path()));
        if listed {
            let (key, text) = (LIST.to_owned(), server.name.clone());
            changes.push((scope, Edit::RemoveFromList { key, text }));
        }
    }
    changes
}

fn said(
    session: &Session,
    after: &Configuration,
    name: &str,
    position: Position,
    places: &[String],
) -> Done {
    let state = after.effective.winner(name).map(|server| &server.state);
    let is_off = matches!(state, Some(State::Disabled(_)));
    if session.wants_json() {
        let word = state.map(crate::describe::state_word);
        return crate::commands::json(&json!({"name": name, "state": word, "changed": places}));
    }
    let name = printable(name);
    let place = places.join(" and ");
    Done::text(match (position, places.is_empty(), is_off) {
        (Position::Off, _, _) => format!("`{name}` is switched off in {place}\n"),
        (Position::On, true, false) => format!("`{name}` is not switched off\n"),
        (Position::On, false, false) => format!("`{name}` is switched on again in {place}\n"),
        (Position::On, _, true) => format!("`{name}` is still switched off where it is defined\n"),
    })
}
