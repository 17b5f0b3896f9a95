//! Parses the lines that a program sends.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::message::ContentBlock;

/// A frame of the program that is not an answer to a request of ours.
#[derive(Debug, Clone, PartialEq)]
pub enum IncomingFrame {
    /// A message to the model.
    User(UserFrame),
    /// A control request.
    Request(IncomingRequest),
    /// A control request that cannot be answered but with an error.
    InvalidRequest {
        /// Its id as it was sent.
        id: Json,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The program withdraws its request.
    Cancelled(String),
    /// The input ended: no more frames come.
    Ended,
    /// The input is not what it should be, so the session ends.
    Broken(FrameError),
}

/// A message to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct UserFrame {
    /// Its content. Where a block was left out, a text says so to the model.
    pub content: Vec<ContentBlock>,
    /// What was left out, for people.
    pub left_out: Vec<String>,
    /// Its id, if the program gave it one.
    pub uuid: Option<String>,
}

/// A control request of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct IncomingRequest {
    /// Its id.
    pub id: String,
    /// What it is about.
    pub subtype: String,
    /// The whole request.
    pub body: Json,
}

/// A line that is not a frame.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    /// It is not a JSON object.
    #[error("a line of the input is not a JSON object: {0}")]
    NotJson(String),
    /// The input cannot be read, or a line is too long.
    #[error("the input cannot be read: {0}")]
    Unreadable(String),
}

/// A line of the program.
#[derive(Debug)]
pub(crate) enum Line {
    /// For the session.
    Frame(IncomingFrame),
    /// The answer to a request of ours.
    Response { id: String, outcome: Result<Bytes, String> },
    /// A type that means nothing here.
    Ignored,
}

/// A line in pieces. Members of a wrong type are no reason to end a session, so nothing is expected of them here.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResponseBody<'a> {
    #[serde(borrow, default)]
    subtype: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Json>,
}

/// Parses one line.
pub(crate) fn parse_line(line: &[u8]) -> Result<Line, FrameError> {
    let not_json = |error: serde_json::Error| FrameError::NotJson(error.to_string());
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(FrameError::NotJson("it does not begin with {".to_owned()));
    }
    let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(not_json)?;
    let kind = text_of(envelope.kind).unwrap_or_default();
    Ok(match kind.as_str() {
        "user" => Line::Frame(IncomingFrame::User(user_frame(line))),
        "control_request" => Line::Frame(request(&envelope)),
        "control_response" => envelope.response.map_or(Line::Ignored, response),
        "control_cancel_request" => match text_of(envelope.request_id) {
            Some(id) => Line::Frame(IncomingFrame::Cancelled(id)),
            None => Line::Ignored,
        },
        // `keep_alive`, and what later versions may send.
        _ => Line::Ignored,
    })
}

/// The text, if the value is one.
fn text_of(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

fn json_of(raw: Option<&RawValue>) -> Option<Json> {
    serde_json::from_str(raw?.get()).ok()
}

fn request(envelope: &Envelope<'_>) -> IncomingFrame {
    let invalid = |why| IncomingFrame::InvalidRequest {
        id: json_of(envelope.request_id).unwrap_or_default(),
        why,
    };
    let Some(id) = text_of(envelope.request_id) else {
        return invalid(match envelope.request_id {
            Some(_) => "`request_id` must be a text",
            None => "the request has no `request_id`",
        });
    };
    let Some(body) = json_of(envelope.request).filter(Json::is_object) else {
        return invalid("`request` must be an object that is not nested too deeply");
    };
    match body["subtype"].as_str().map(str::to_owned) {
        Some(subtype) => IncomingFrame::Request(IncomingRequest { id, subtype, body }),
        None => invalid("`subtype` must be a text"),
    }
}

fn response(raw: &RawValue) -> Line {
    let Ok(body) = serde_json::from_str::<ResponseBody<'_>>(raw.get()) else {
        return Line::Ignored;
    };
    let Some(id) = text_of(body.request_id) else { return Line::Ignored };
    let subtype = body.subtype.map_or(Some(String::new()), |it| text_of(Some(it)));
    let outcome = match subtype.as_deref() {
        Some("success" | "") => Ok(match body.response {
            Some(raw) => Bytes::copy_from_slice(raw.get().as_bytes()),
            None => Bytes::from_static(b"{}"),
        }),
        Some("error") => Err(match body.error {
            Some(Json::String(text)) => text,
            Some(other) => other.to_string(),
            None => "the program gave no reason".to_owned(),
        }),
        Some(_) | None => Err("the answer is neither a success nor an error".to_owned()),
    };
    Line::Response { id, outcome }
}

fn user_frame(line: &[u8]) -> UserFrame {
    let Ok(frame) = serde_json::from_slice::<Json>(line) else {
        let left_out = vec!["a message that is nested too deeply".to_owned()];
        return UserFrame { content: Vec::new(), left_out, uuid: None };
    };
    let mut user = UserFrame {
        content: Vec::new(),
        left_out: Vec::new(),
        uuid: frame["uuid"].as_str().map(str::to_owned),
    };
    match &frame["message"]["content"] {
        Json::String(text) => user.content.push(ContentBlock::Text { text: text.clone() }),
        Json::Array(blocks) => {
            for block in blocks {
                match content_block(block) {
                    Some(block) => user.content.push(block),
                    None => user.left_out.push(block_name(block)),
                }
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => {}
    }
    let is_empty = |it: &ContentBlock| matches!(it, ContentBlock::Text { text } if text.is_empty());
    user.content.retain(|it| !is_empty(it));
    if !user.content.is_empty() {
        let notes = user.left_out.iter().map(|name| ContentBlock::Text {
            text: format!("[the user's message contained {name}, which could not be passed on]"),
        });
        user.content.extend(notes);
    }
    user
}

/// A block of a user's message. Kinds that a model could not take from a user are left out.
fn content_block(block: &Json) -> Option<ContentBlock> {
    let text = |value: &Json| value.as_str().map(str::to_owned);
    match block["type"].as_str()? {
        "text" => Some(ContentBlock::Text { text: text(&block["text"])? }),
        "image" => Some(ContentBlock::Image {
            mime: text(&block["source"]["media_type"])?,
            base64: text(&block["source"]["data"])?,
        }),
        "document" => match block["source"]["type"].as_str() {
            Some("text") => Some(ContentBlock::Text { text: text(&block["source"]["data"])? }),
            Some(_) | None => None,
        },
        _ => None,
    }
}

/// What a block is, for people and for the model.
fn block_name(block: &Json) -> String {
    let short = |value: &Json| -> Option<String> {
        let plain = |c: &char| c.is_ascii_alphanumeric() || "/+-._".contains(*c);
        let text: String = value.as_str()?.chars().filter(plain).take(60).collect();
        Some(text).filter(|it| !it.is_empty())
    };
    let source = &block["source"];
    let kind = short(&block["type"]).unwrap_or_else(|| "unknown".to_owned());
    match short(&source["media_type"]).or_else(|| short(&source["type"])) {
        Some(more) => format!("a block of type `{kind}` ({more})"),
        None => format!("a block of type `{kind}`"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse_user(content: &Json) -> UserFrame {
        let frame = json!({"type": "user", "message": {"role": "user", "content": content}});
        let Line::Frame(IncomingFrame::User(user)) = parse(&frame) else { panic!("{frame}") };
        user
    }

    fn parse(frame: &Json) -> Line {
        parse_line(frame.to_string().as_bytes()).expect("a frame")
    }

    #[test]
    fn a_message_is_a_text_or_a_list_of_blocks() {
        let text = |text: &str| ContentBlock::Text { text: text.to_owned() };
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
        for (content, expected) in [
            (json!("hi"), vec![text("hi")]),
            (
                json!([image]),
                vec![ContentBlock::Image { mime: "image/png".into(), base64: "aGk=".into() }],
            ),
        ] {
            assert_eq!(parse_user(&content).content, expected);
        }
    }

    #[test]
    fn the_model_learns_of_blocks_that_are_left_out() {
        let pdf = json!({"type": "document", "source":
            {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}});
        let user = parse_user(&json!([{"type": "text", "text": "see"}, pdf]));
        assert_eq!(user.left_out, ["a block of type `document` (application/pdf)"]);
        let [_, ContentBlock::Text { text }] = &user.content[..] else { panic!("{user:?}") };
        assert!(text.contains("`document` (application/pdf), which could not be passed on"));
    }

    #[test]
    fn a_message_without_content_that_can_be_passed_on_is_still_a_message() {
        let image =
            json!({"type": "image", "source": {"type": "url", "url": "https://example.com"}});
        let user = parse_user(&json!([image, {"type": 5}, 1]));
        assert_eq!(user.content, []);
        let names = ["image` (url)", "unknown`", "unknown`"];
        assert!(user.left_out.iter().zip(names).all(|(name, end)| name.ends_with(end)));
        for empty in
            [json!([]), json!(""), Json::Null, json!(5), json!([{"type": "text", "text": ""}])]
        {
            assert_eq!(parse_user(&empty).content, [], "{empty}");
        }
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let line = format!("{{\"type\":\"user\",\"message\":{{\"content\":{deep}}}}}");
        let Ok(Line::Frame(IncomingFrame::User(user))) = parse_line(line.as_bytes()) else {
            panic!()
        };
        assert_eq!(user.content, []);
    }

    #[test]
    fn members_of_a_wrong_type_do_not_end_the_session() {
        assert!(matches!(parse(&json!({"type": 5})), Line::Ignored));
        assert!(matches!(parse(&json!({"type": "future", "request_id": 5})), Line::Ignored));
        assert!(matches!(
            parse(&json!({"type": "control_cancel_request", "request_id": 5})),
            Line::Ignored
        ));
        assert!(matches!(
            parse(&json!({"type": "control_response", "response": 1})),
            Line::Ignored
        ));
        let response = json!({"subtype": null, "request_id": 7});
        assert!(matches!(
            parse(&json!({"type": "control_response", "response": response})),
            Line::Ignored
        ));
        let response = json!({"subtype": 5, "request_id": "1", "response": {"behavior": "allow"}});
        let Line::Response { outcome, .. } =
            parse(&json!({"type": "control_response", "response": response}))
        else {
            panic!()
        };
        assert!(outcome.is_err());
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let deep =
            format!("{{\"type\":\"control_request\",\"request_id\":\"1\",\"request\":{deep}}}");
        for (line, expected) in [
            (json!({"type": "control_request", "request_id": 5, "request": {"subtype": "interrupt"}}).to_string(), json!(5)),
            (json!({"type": "control_request", "request": {"subtype": "interrupt"}}).to_string(), Json::Null),
            (json!({"type": "control_request", "request_id": "a", "request": {"subtype": 5}}).to_string(), json!("a")),
            (json!({"type": "control_request", "request_id": "b"}).to_string(), json!("b")),
            (deep, json!("1")),
        ] {
            let parsed = parse_line(line.as_bytes()).expect("a frame");
            let Line::Frame(IncomingFrame::InvalidRequest { id, .. }) = parsed else { panic!("{line}") };
            assert_eq!(id, expected);
        }
    }

    #[test]
    fn unknown_types_are_ignored_and_other_lines_are_errors() {
        assert!(matches!(parse(&json!({"type": "keep_alive"})), Line::Ignored));
        assert!(matches!(parse(&json!({"type": "later", "response": 1})), Line::Ignored));
        for line in ["hello", "{\"type\":", "[1]", ""] {
            assert!(parse_line(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn a_response_is_a_result_or_an_error() {
        let success = json!({"type": "control_response", "response":
            {"subtype": "success", "request_id": "1", "response": {"a": null}}});
        let Line::Response { id, outcome } = parse(&success) else { panic!() };
        assert_eq!((id.as_str(), outcome), ("1", Ok(Bytes::from_static(b"{\"a\":null}"))));
        let error = json!({"type": "control_response", "response":
            {"subtype": "error", "request_id": "2", "error": "no"}});
        let Line::Response { outcome, .. } = parse(&error) else { panic!() };
        assert_eq!(outcome, Err("no".to_owned()));
    }
}
