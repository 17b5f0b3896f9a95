//! Titles that the definitions of several servers share. Two servers of one kind have the same titles, and clients show
//! titles instead of names; the name of the server is added to tell them apart.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use switchboard_wire::jsonrpc::message::Payload;

use crate::json::payload;

/// The titles that definitions of more than one server have.
#[derive(Debug)]
pub(super) struct SharedTitles(BTreeSet<String>);

/// The members of a definition that clients show as its title.
#[derive(Debug, Default, Deserialize)]
struct Titles {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    annotations: Option<AnnotationTitle>,
}

#[derive(Debug, Default, Deserialize)]
struct AnnotationTitle {
    #[serde(default)]
    title: Option<String>,
}

impl Titles {
    fn of(definition: &Payload) -> impl Iterator<Item = String> + use<> {
        let titles: Titles = definition.decode().unwrap_or_default();
        titles.title.into_iter().chain(titles.annotations.and_then(|it| it.title))
    }
}

impl SharedTitles {
    /// Finds the shared titles of definitions, each with its server.
    pub(super) fn new<'a>(
        definitions: impl Iterator<Item = (&'a str, &'a Payload)>,
    ) -> SharedTitles {
        let mut servers: BTreeMap<String, &str> = BTreeMap::new();
        let mut shared = BTreeSet::new();
        for (server, definition) in definitions {
            for title in Titles::of(definition) {
                let first = *servers.entry(title.clone()).or_insert(server);
                if first != server {
                    shared.insert(title);
                }
            }
        }
        SharedTitles(shared)
    }

    /// The definition of a server, with the server's name in titles that others have as well.
    pub(super) fn distinguish<'a>(
        &self,
        server: &str,
        definition: &'a Payload,
    ) -> Cow<'a, Payload> {
        let has_shared = || Titles::of(definition).any(|it| self.0.contains(&it));
        if self.0.is_empty() || !has_shared() {
            return Cow::Borrowed(definition);
        }
        let Ok(mut members) = definition.decode::<Map<String, Json>>() else {
            return Cow::Borrowed(definition);
        };
        let distinguish = |title: &mut Json| {
            if let Some(text) = title.as_str().filter(|it| self.0.contains(*it)) {
                *title = format!("{text} ({server})").into();
            }
        };
        if let Some(title) = members.get_mut("title") {
            distinguish(title);
        }
        if let Some(title) = members.get_mut("annotations").and_then(|it| it.get_mut("title")) {
            distinguish(title);
        }
        Cow::Owned(payload(&Json::Object(members)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn titles_that_two_servers_have_say_which_server_it_is() {
        let definition = |json: Json| Payload::encode(&json).expect("JSON");
        let read = definition(json!({"name": "read", "title": "Read a file"}));
        let annotated = definition(json!({"name": "r", "annotations": {"title": "Read a file"}}));
        let own = definition(json!({"name": "own", "title": "Only here"}));
        let all = [("work", &read), ("home", &annotated), ("home", &own), ("home", &own)];
        let titles = SharedTitles::new(all.into_iter());
        let shown = |server: &str, of: &Payload| -> Json {
            titles.distinguish(server, of).decode().expect("JSON")
        };
        assert_eq!(shown("work", &read)["title"], "Read a file (work)");
        assert_eq!(shown("home", &annotated)["annotations"]["title"], "Read a file (home)");
        assert_eq!(shown("home", &own)["title"], "Only here");
    }
}
