//! Reads the members of a JSON object of an untrusted file: a wrong type is an error that names the key.

use serde_json::{Map, Value as Json};

/// A member with another type than the format says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WrongMember {
    pub(super) key: &'static str,
    pub(super) expected: &'static str,
}

/// The members of an object. `null` counts as absent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Members<'m>(pub(super) &'m Map<String, Json>);

impl<'m> Members<'m> {
    pub(super) fn get(self, key: &str) -> Option<&'m Json> {
        self.0.get(key).filter(|it| !it.is_null())
    }

    pub(super) fn string(self, key: &'static str) -> Result<Option<String>, WrongMember> {
        self.typed(key, "text", |it| it.as_str().map(str::to_owned))
    }

    pub(super) fn boolean(self, key: &'static str) -> Result<Option<bool>, WrongMember> {
        self.typed(key, "true or false", Json::as_bool)
    }

    pub(super) fn object(
        self,
        key: &'static str,
    ) -> Result<Option<&'m Map<String, Json>>, WrongMember> {
        self.typed(key, "an object", Json::as_object)
    }

    pub(super) fn strings(self, key: &'static str) -> Result<Vec<String>, WrongMember> {
        let all = |it: &Json| {
            let items = it.as_array()?.iter();
            items.map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        Ok(self.typed(key, "a list of texts", all)?.unwrap_or_default())
    }

    fn typed<T>(
        self,
        key: &'static str,
        expected: &'static str,
        read: impl FnOnce(&'m Json) -> Option<T>,
    ) -> Result<Option<T>, WrongMember> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or(WrongMember { key, expected }),
        }
    }
}
