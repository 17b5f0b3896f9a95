//! Gives the arguments of a call back what was cut from them for the program. Pure.

use serde_json::Value as Json;
use thiserror::Error;

use crate::control::frame_limit::CUT_MARK;

/// Changed arguments that contain the rest of a text that was cut for the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the changed arguments contain a text that was cut to fit in one frame")]
pub(crate) struct CutInput;

/// The arguments that a program wants: what it left as it was sent is the original, whole.
pub(crate) fn restored(wanted: &Json, (sent, original): (&Json, &Json)) -> Result<Json, CutInput> {
    if sent == original {
        return Ok(wanted.clone());
    }
    if wanted == sent {
        return Ok(original.clone());
    }
    match (wanted, sent, original) {
        (Json::Object(wanted), Json::Object(sent), Json::Object(original)) => {
            let members = wanted.iter().map(|(name, value)| {
                if name.contains(CUT_MARK) {
                    return Err(CutInput);
                }
                match (sent.get(name), original.get(name)) {
                    (Some(sent), Some(original)) => {
                        Ok((name.clone(), restored(value, (sent, original))?))
                    }
                    (_, _) => Ok((name.clone(), whole(value)?)),
                }
            });
            members.collect()
        }
        (Json::Array(wanted), Json::Array(sent), Json::Array(original))
            if wanted.len() == sent.len() && sent.len() == original.len() =>
        {
            let pairs = sent.iter().zip(original);
            wanted.iter().zip(pairs).map(|(wanted, pair)| restored(wanted, pair)).collect()
        }
        (_, _, _) => whole(wanted),
    }
}

/// The value, if nothing in it was cut.
fn whole(value: &Json) -> Result<Json, CutInput> {
    match value.to_string().contains(CUT_MARK) {
        true => Err(CutInput),
        false => Ok(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_unchanged_is_whole_again_and_a_cut_text_never_is_an_argument() {
        let cut = format!("aaa{CUT_MARK}");
        let original = json!({"path": "x", "content": "aaaaaaaa", "list": ["bbbbbbb", 1]});
        let sent = json!({"path": "x", "content": cut, "list": [cut, 1]});
        let both = (&sent, &original);
        assert_eq!(restored(&sent, both), Ok(original.clone()));
        let moved = json!({"path": "y", "content": cut, "list": [cut, 2]});
        let expected = json!({"path": "y", "content": "aaaaaaaa", "list": ["bbbbbbb", 2]});
        assert_eq!(restored(&moved, both), Ok(expected));
        let replaced = json!({"content": "short"});
        assert_eq!(restored(&replaced, both), Ok(replaced.clone()));
        for wrong in [
            json!({"content": format!("more {cut}")}),
            json!({"other": cut}),
            json!({"list": [cut]}),
            json!({(cut.clone()): 1}),
        ] {
            assert_eq!(restored(&wrong, both), Err(CutInput), "{wrong}");
        }
        assert_eq!(restored(&json!({"a": cut}), (&original, &original)), Ok(json!({"a": cut})));
    }
}
