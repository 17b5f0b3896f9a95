//! Switching servers on and off: in the entry where it is the person's own, else in the person's settings.

use std::path::PathBuf;

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
        Position::Off => vec![off(session, server, scope)],
        Position::On => on(session, &configuration, server),
    };
    let mut places = Vec::new();
    for Change { scope, file, edit } in changes {
        writing::edit_file(session, scope, &file, &[edit])?;
        let place = session.shown_path(&file);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let after = session.load()?;
    Ok(said(session, &after, name, position, &places))
}

/// One edit of one file.
struct Change {
    scope: WritableScope,
    file: PathBuf,
    edit: Edit,
}

/// A person's own entry is changed itself; of everybody else's entries only this person's view is.
fn off(session: &Session, server: &Server, wanted: Option<WritableScope>) -> Change {
    let name = server.name.clone();
    let own = session.file_to_change(server).filter(|(own, _)| match wanted {
        Some(wanted) => *own == wanted,
        None => *own != WritableScope::Project,
    });
    match own {
        Some((scope, file)) => {
            let edit = Edit::SetKey { name, key: "disabled".to_owned(), value: Some(true.into()) };
            Change { scope, file, edit }
        }
        None => {
            let scope = wanted.filter(|it| *it != WritableScope::Project);
            let scope = scope.unwrap_or(WritableScope::Local);
            let edit = Edit::AddToList { key: LIST.to_owned(), text: name };
            Change { scope, file: session.file_of(scope), edit }
        }
    }
}

/// Takes back every switch that holds the server down.
fn on(session: &Session, configuration: &Configuration, server: &Server) -> Vec<Change> {
    let mut changes = Vec::new();
    if let Some((scope, file)) = session.file_to_change(server)
        && server.entry.as_ref().is_some_and(|entry| entry.disabled)
    {
        let (name, key) = (server.name.clone(), "disabled".to_owned());
        changes.push(Change { scope, file, edit: Edit::SetKey { name, key, value: None } });
    }
    for it in configuration.disabled.iter().filter(|it| it.name == server.name) {
        if let (Some(scope), Some(file)) =
            (WritableScope::of(it.origin.scope()), it.origin.source.path())
        {
            let edit = Edit::RemoveFromList { key: LIST.to_owned(), text: server.name.clone() };
            changes.push(Change { scope, file: file.to_owned(), edit });
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
        (Position::On, false, false) => {
            let state = state.map(crate::describe::state_text).unwrap_or_default();
            format!("`{name}` is switched on again in {place}: {state}\n")
        }
        (Position::On, _, true) => format!("`{name}` is still switched off where it is defined\n"),
    })
}
