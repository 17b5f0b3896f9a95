//! One request as an authority saw it, so that tests can ask where a secret went.

use std::collections::BTreeMap;

/// One of the origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// The protected server.
    Resource,
    /// The authorization server; the resource's origin where they live together.
    Issuer,
    /// The identity provider.
    Identity,
    /// Somebody else, whom nobody should tell anything.
    Attacker,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedRequest {
    /// Where it arrived.
    pub site: Site,
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub path: String,
    /// Headers in order, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// What the query and a form say.
    pub fields: BTreeMap<String, String>,
    /// The body as text.
    pub body: String,
    /// The status of the answer, once there is one.
    pub status: Option<u16>,
}

impl ObservedRequest {
    /// The first header of this name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// What a field of the query or the form says; empty where it is not there.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Is this text anywhere in it?
    pub fn contains(&self, text: &str) -> bool {
        let mut texts = vec![self.path.as_str(), self.body.as_str()];
        texts.extend(self.fields.values().map(String::as_str));
        texts.extend(self.headers.iter().map(|(_, value)| value.as_str()));
        texts.iter().any(|it| it.contains(text))
    }
}
