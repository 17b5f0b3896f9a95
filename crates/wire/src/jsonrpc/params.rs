//! Adds members to raw parameters without decoding them.

use bytes::Bytes;
use serde_json::Map;
use serde_json::value::RawValue;

use super::payload::Payload;

/// Adds members in front of the parameters. A member of the same name is replaced, except `_meta`: there the two
/// objects are merged, and ours take precedence. Parameters that are not an object stay unchanged.
pub(crate) fn with_members(params: Option<&Payload>, members: &[(&str, &[u8])]) -> Option<Payload> {
    if members.is_empty() {
        return params.cloned();
    }
    let body = params.map_or(&b"{}"[..], |params| params.as_bytes().trim_ascii());
    let Some(rest) = body.strip_prefix(b"{") else { return params.cloned() };
    let is_mentioned =
        |(name, _): &(&str, &[u8])| memchr::memmem::find(rest, name.as_bytes()).is_some();
    if members.iter().any(is_mentioned) {
        return Some(merge_members(body, members));
    }
    let mut text = Vec::with_capacity(
        body.len() + members.iter().map(|it| it.0.len() + it.1.len() + 4).sum::<usize>(),
    );
    text.push(b'{');
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.push(b'"');
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b"\":");
        text.extend_from_slice(value);
    }
    if rest.trim_ascii_start() != b"}" {
        text.push(b',');
    }
    text.extend_from_slice(rest);
    Some(Payload::from_json(Bytes::from(text)))
}

/// Decodes and merges, for parameters that mention one of the names at any depth.
fn merge_members(body: &[u8], members: &[(&str, &[u8])]) -> Payload {
    type Members = Map<String, serde_json::Value>;
    let Ok(mut map) = serde_json::from_slice::<Members>(body) else {
        return Payload::from_json(Bytes::copy_from_slice(body));
    };
    for (name, value) in members {
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(value) else { continue };
        match (map.get_mut(*name), value) {
            (Some(serde_json::Value::Object(existing)), serde_json::Value::Object(ours))
                if *name == "_meta" =>
            {
                existing.extend(ours);
            }
            (_, value) => {
                map.insert((*name).to_owned(), value);
            }
        }
    }
    Payload::from_json(Bytes::from(serde_json::Value::Object(map).to_string()))
}

/// The value of a string member.
pub(crate) fn string_member(params: &Payload, name: &str) -> Option<String> {
    let map: std::collections::HashMap<&str, &RawValue> =
        serde_json::from_slice(params.as_bytes()).ok()?;
    serde_json::from_str(map.get(name)?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(params: Option<&'static str>, members: &[(&str, &[u8])], expected: Option<&str>) {
        let params = params.map(|text| Payload::from_json(Bytes::from_static(text.as_bytes())));
        let joined = with_members(params.as_ref(), members);
        let text = joined.map(|it| String::from_utf8(it.as_bytes().to_vec()).expect("text"));
        assert_eq!(text.as_deref(), expected);
    }

    const META: &[(&str, &[u8])] = &[("_meta", br#"{"a":1}"#)];

    #[test]
    fn members_go_in_front_and_the_rest_stays_as_it_was() {
        check(None, &[], None);
        check(None, META, Some(r#"{"_meta":{"a":1}}"#));
        check(Some("{ }"), META, Some(r#"{"_meta":{"a":1} }"#));
        check(Some(r#" {"b": 1.0 }"#), META, Some(r#"{"_meta":{"a":1},"b": 1.0 }"#));
        check(
            Some(r#"{"b":2}"#),
            &[("x", b"1"), ("y", b"\"z\"")],
            Some(r#"{"x":1,"y":"z","b":2}"#),
        );
    }

    #[test]
    fn existing_members_are_merged_or_replaced() {
        check(
            Some(r#"{"_meta":{"b":2,"a":9},"c":3}"#),
            META,
            Some(r#"{"_meta":{"b":2,"a":1},"c":3}"#),
        );
        check(Some(r#"{"c":{"_meta":5}}"#), META, Some(r#"{"c":{"_meta":5},"_meta":{"a":1}}"#));
        check(Some(r#"{"x":0}"#), &[("x", b"1")], Some(r#"{"x":1}"#));
    }

    #[test]
    fn parameters_that_are_no_object_stay_as_they_are() {
        check(Some("[1]"), META, Some("[1]"));
        check(Some(r#"{"_meta" broken"#), META, Some(r#"{"_meta" broken"#));
    }

    #[test]
    fn a_member_is_read_as_text() {
        let params = Payload::from_json(Bytes::from_static(br#"{"name":"a\u0062","n":1}"#));
        assert_eq!(string_member(&params, "name").as_deref(), Some("ab"));
        assert_eq!(string_member(&params, "n"), None);
    }
}
