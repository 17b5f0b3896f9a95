//! Reads members of a registry's JSON objects: older schemas wrote `snake_case`, newer ones `camelCase`. Every text is
//! bounded, and texts that become part of an entry contain no control characters.

use serde_json::{Map, Value as Json};

use super::error::ListingError;

/// The maximum length of a text that becomes part of an entry.
const MAX_TEXT: usize = 4096;
/// The maximum length of a text for people; longer ones are cut.
const MAX_PROSE: usize = 2000;
/// The maximum number of elements of a list.
pub(super) const MAX_ELEMENTS: usize = 200;

/// The members of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'j> {
    members: &'j Map<String, Json>,
}

impl<'j> Fields<'j> {
    /// The members of a value, which must be an object.
    pub(super) fn open(value: &'j Json, key: &str) -> Result<Fields<'j>, ListingError> {
        match value.as_object() {
            Some(members) => Ok(Fields { members }),
            None => Err(wrong_type(key, "an object")),
        }
    }

    /// The first of these members that is there and not null.
    pub(super) fn get(self, keys: &[&str]) -> Option<&'j Json> {
        keys.iter().filter_map(|key| self.members.get(*key)).find(|it| !it.is_null())
    }

    /// A text for an entry. Numbers and booleans count as their text.
    pub(super) fn text(self, keys: &[&str]) -> Result<Option<String>, ListingError> {
        let Some(value) = self.get(keys) else { return Ok(None) };
        entry_text(value, keys[0]).map(Some)
    }

    /// A required text for an entry, which must not be empty.
    pub(super) fn required_text(self, keys: &[&str]) -> Result<String, ListingError> {
        let text = self.text(keys)?.filter(|it| !it.is_empty());
        text.ok_or_else(|| ListingError::Missing { key: keys[0].to_owned() })
    }

    /// A text for people; anything else counts as absent.
    pub(super) fn prose(self, keys: &[&str]) -> Option<String> {
        let text = self.get(keys)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.chars().take(MAX_PROSE).collect())
    }

    /// A boolean; absent counts as false.
    pub(super) fn flag(self, keys: &[&str]) -> Result<bool, ListingError> {
        match self.get(keys) {
            None => Ok(false),
            Some(Json::Bool(value)) => Ok(*value),
            Some(_) => Err(wrong_type(keys[0], "true or false")),
        }
    }

    /// A list; absent counts as empty.
    pub(super) fn list(self, keys: &[&str]) -> Result<&'j [Json], ListingError> {
        match self.get(keys) {
            None => Ok(&[]),
            Some(Json::Array(elements)) if elements.len() <= MAX_ELEMENTS => Ok(elements),
            Some(Json::Array(_)) => Err(ListingError::TooLong { key: keys[0].to_owned() }),
            Some(_) => Err(wrong_type(keys[0], "a list")),
        }
    }

    /// The members of an object; absent counts as empty.
    pub(super) fn pairs(
        self,
        keys: &[&str],
    ) -> Result<impl Iterator<Item = (&'j String, &'j Json)>, ListingError> {
        let members = match self.get(keys) {
            None => None,
            Some(Json::Object(members)) if members.len() <= MAX_ELEMENTS => Some(members),
            Some(Json::Object(_)) => return Err(ListingError::TooLong { key: keys[0].to_owned() }),
            Some(_) => return Err(wrong_type(keys[0], "an object")),
        };
        Ok(members.into_iter().flatten())
    }
}

/// A text for an entry.
pub(super) fn entry_text(value: &Json, key: &str) -> Result<String, ListingError> {
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        Json::Bool(value) => value.to_string(),
        Json::Null | Json::Array(_) | Json::Object(_) => return Err(wrong_type(key, "a text")),
    };
    if text.len() > MAX_TEXT {
        return Err(ListingError::TooLong { key: key.to_owned() });
    }
    if text.contains(char::is_control) {
        return Err(ListingError::ControlCharacter { key: key.to_owned() });
    }
    Ok(text)
}

pub(super) fn wrong_type(key: &str, expected: &'static str) -> ListingError {
    ListingError::WrongType { key: key.to_owned(), expected }
}
