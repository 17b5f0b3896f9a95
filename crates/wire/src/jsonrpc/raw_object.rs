//! A JSON object read one level deep: names are decoded, values stay the received bytes.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::payload::Payload;

/// The members of an object in their order. If a name occurs twice, the last one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawObject(Vec<(String, Payload)>);

impl RawObject {
    /// Parses an object; an absent one is empty. Returns `None` for any other JSON value.
    pub fn parse(object: Option<&Payload>) -> Option<RawObject> {
        let Some(object) = object else { return Some(RawObject::default()) };
        let bytes = object.as_bytes();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let members = reader.deserialize_map(MemberVisitor(bytes)).ok()?;
        reader.end().ok()?;
        Some(RawObject(members))
    }

    /// The value of a member.
    pub fn get(&self, name: &str) -> Option<&Payload> {
        self.0.iter().rev().find(|it| it.0 == name).map(|it| &it.1)
    }

    /// The value of a string member.
    pub fn get_string(&self, name: &str) -> Option<String> {
        self.get(name)?.decode().ok()
    }

    /// Removes a member and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Payload> {
        let found = self.get(name).cloned();
        if found.is_some() {
            self.0.retain(|it| it.0 != name);
        }
        found
    }

    /// Sets a member, replacing one of the same name.
    pub fn insert(&mut self, name: &str, value: Payload) {
        match self.0.iter_mut().find(|it| it.0 == name) {
            Some(member) => member.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Returns a copy without the members of these names.
    pub fn without(&self, names: &[&str]) -> RawObject {
        let members = self.0.iter().filter(|it| !names.contains(&it.0.as_str()));
        RawObject(members.cloned().collect())
    }

    /// All members in their order.
    pub fn into_members(self) -> Vec<(String, Payload)> {
        self.0
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object as JSON.
    pub fn to_payload(&self) -> Payload {
        let mut text = vec![b'{'];
        self.write_members(&mut text);
        text.push(b'}');
        Payload::from_json(text.into())
    }

    pub(crate) fn write_members(&self, text: &mut Vec<u8>) {
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            text.extend_from_slice(serde_json::Value::from(name.as_str()).to_string().as_bytes());
            text.push(b':');
            text.extend_from_slice(value.as_bytes());
        }
    }
}

struct MemberVisitor<'a>(&'a Bytes);

impl<'de> Visitor<'de> for MemberVisitor<'_> {
    type Value = Vec<(String, Payload)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(4);
        while let Some((name, value)) = map.next_entry::<Cow<'_, str>, &RawValue>()? {
            let value = Payload::from_json(self.0.slice_ref(value.get().as_bytes()));
            members.push((name.into_owned(), value));
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_keep_their_bytes_and_the_last_duplicate_wins() {
        let object = Payload::from_json(Bytes::from_static(br#"{"a": 1.0 ,"b":{ },"a":[2 ]}"#));
        let mut members = RawObject::parse(Some(&object)).expect("an object");
        assert_eq!(members.get("a").expect("it is there").as_bytes().as_ref(), b"[2 ]");
        assert_eq!(members.remove("a").expect("it is there").as_bytes().as_ref(), b"[2 ]");
        assert_eq!(members.to_payload().as_bytes().as_ref(), br#"{"b":{ }}"#);
        assert_eq!(RawObject::parse(Some(&Payload::encode(&json!([1])).expect("JSON"))), None);
        assert!(RawObject::parse(None).expect("nothing").is_empty());
    }
}
