//! Recorded requests, so that tests can check where a secret was sent.

use std::collections::BTreeMap;

/// One of the origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// The protected resource.
    Resource,
    /// The authorization server; the resource's origin if they share one.
    Issuer,
    /// The identity provider.
    Identity,
    /// An attacker, who must not receive any secret.
    Attacker,
}

/// A recorded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedRequest {
    /// The site that received it.
    pub site: Site,
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The fields of the query and of a form body.
    pub fields: BTreeMap<String, String>,
    /// The body as text.
    pub body: String,
    /// The status of the response, once there is one.
    pub status: Option<u16>,
}

impl ObservedRequest {
    /// The first header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// A field of the query or the form; empty if absent.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Whether this text occurs anywhere in the request.
    pub fn contains(&self, text: &str) -> bool {
        let mut texts = vec![self.path.as_str(), self.body.as_str()];
        texts.extend(self.fields.values().map(String::as_str));
        texts.extend(self.headers.iter().map(|(_, value)| value.as_str()));
        texts.iter().any(|it| it.contains(text))
    }
}
