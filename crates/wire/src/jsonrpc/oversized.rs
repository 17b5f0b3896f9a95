//! Reads the id at the front of a response that exceeds the size limit, so that its call can fail at once.
//! Skipping the rest of the message is left to the transport.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::message::RequestId;

/// How many bytes of a message are examined.
const PREFIX_LENGTH: usize = 4096;

/// The id of the request that an oversized message answers, if the id precedes the result.
pub(crate) fn response_id(message: &[u8]) -> Option<RequestId> {
    let prefix = &message[..message.len().min(PREFIX_LENGTH)];
    let mut rest = prefix.trim_ascii_start().strip_prefix(b"{")?;
    let mut id = None;
    loop {
        let key: String = take_value(&mut rest)?;
        rest = rest.trim_ascii_start().strip_prefix(b":")?;
        match key.as_str() {
            "result" | "error" => return id,
            "method" | "params" => return None,
            "id" => id = Some(RequestId::from_raw(&take_value::<Box<RawValue>>(&mut rest)?)),
            _ => drop(take_value::<Box<RawValue>>(&mut rest)?),
        }
        rest = rest.trim_ascii_start().strip_prefix(b",")?;
    }
}

/// Parses one JSON value and removes it from the front.
fn take_value<T: DeserializeOwned>(rest: &mut &[u8]) -> Option<T> {
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<T>();
    let value = values.next()?.ok()?;
    let end = values.byte_offset();
    *rest = rest.get(end..)?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_response_is_recognised_by_its_prefix() {
        let seven = Some(RequestId::Number(7));
        let text = Some(RequestId::Other(Bytes::from_static(b"\"a\"")));
        for (prefix, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"xxx"#, seven.clone()),
            (r#" { "id" : 7 , "error" : {"code"#, seven),
            (r#"{"id":"a","x":{"id":9},"result":[["#, text),
            (r#"{"result":{"id":7"#, None),
            (r#"{"id":7,"method":"x","params":"#, None),
            (r#"{"method":"x","params":{"id":7"#, None),
            (r#"[{"id":7,"result":1"#, None),
            (r#"{"id":7"#, None),
            ("xxxxx", None),
            ("", None),
        ] {
            assert_eq!(response_id(prefix.as_bytes()), expected, "{prefix}");
        }
    }
}
