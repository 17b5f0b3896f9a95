//! What goes wrong with single answers, and at the start of a server.
//! HTTP's own ways to go wrong are in `carried`, those of processes in `over_stdio`.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::actor::{Actor, Life};
use super::outlet::{Frame, Outlet};
use crate::quirk::Quirk;
use crate::script::Script;

/// Stands where bytes are to come that are not UTF-8.
const PLACEHOLDER: &str = "\u{1}broken\u{1}";

/// Stands around a number of letters.
const MANY: &str = "\u{1}many\u{1}";

/// Waits as long as an answer is to take, maybe forever.
pub async fn hesitate(script: &Script, method: &str) {
    if !script.touches(method) {
        return;
    }
    if script.does(&Quirk::NeverAnswers) {
        std::future::pending::<()>().await;
    }
    let late = script
        .quirk_with(|quirk| if let Quirk::AnswersLate { ms } = quirk { Some(*ms) } else { None });
    if let Some(ms) = late {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// Over a network a server has started before anybody comes: its slow start is in its first answer.
pub async fn wake_up(actor: &Actor) {
    match actor.life {
        Life::Stdio => {}
        Life::Network | Life::Guest => {
            tokio::time::sleep(Duration::from_millis(actor.script.start_delay_ms)).await;
        }
    }
}

/// How often to say that the tools changed as soon as somebody listens.
pub fn storm(script: &Script) -> usize {
    script
        .quirk_with(|quirk| if let Quirk::ListChangedStorm { n } = quirk { Some(*n) } else { None })
        .unwrap_or(0)
}

/// Writes to standard error until it is all taken.
pub fn flood_stderr(script: &Script) {
    let flood = script.quirk_with(|quirk| {
        if let Quirk::FloodsStderr { bytes } = quirk { Some(*bytes) } else { None }
    });
    let Some(mut left) = flood else { return };
    const LINE: &[u8] =
        b"this server has a lot to say about nothing at all, and it says it often\n";
    let mut stderr = std::io::stderr().lock();
    while left > 0 {
        let line = &LINE[LINE.len() - left.min(LINE.len())..];
        if stderr.write_all(line).is_err() {
            return;
        }
        left -= line.len();
    }
}

/// So many letters, or a word that stands for them until they are written: a value of that size is slow to write.
pub fn many(letters: usize) -> String {
    match letters > 1_000_000 {
        true => format!("{MANY}{letters}{MANY}"),
        false => "x".repeat(letters),
    }
}

fn with_many_letters(text: Vec<u8>) -> Vec<u8> {
    const LONGEST: usize = 10_000;
    if text.len() > LONGEST {
        return text;
    }
    let mark = json!(MANY).to_string();
    let mark = mark.trim_matches('"').as_bytes();
    let find = |from: usize| {
        let found = text[from..].windows(mark.len()).position(|it| it == mark);
        found.map(|at| from + at)
    };
    let Some(start) = find(0) else { return text };
    let Some(end) = find(start + mark.len()) else { return text };
    let number = std::str::from_utf8(&text[start + mark.len()..end]).unwrap_or_default();
    let letters = vec![b'x'; number.parse().unwrap_or_default()];
    [&text[..start], &letters, &text[end + mark.len()..]].concat()
}

/// Sends an answer, or what becomes of it.
pub fn deliver(actor: &Actor, method: &str, mut answer: Value, outlet: &Outlet) {
    let script = &actor.script;
    for number in 0..garbage(actor) {
        let line = format!("garbage {number}: [not {{ json");
        outlet.send(Frame::Message(line.into_bytes()));
    }
    if !script.touches(method) {
        let bytes = with_many_letters(answer.to_string().into_bytes());
        return outlet.send(Frame::Message(bytes));
    }
    enlarge(script, &mut answer);
    if script.does(&Quirk::BadUtf8) {
        annotate(&mut answer, "broken", json!(PLACEHOLDER));
    }
    if script.does(&Quirk::DuplicateIds) {
        let mut other = answer.clone();
        other["id"] = another(&answer["id"], -1);
        outlet.say(&other);
    }
    if script.does(&Quirk::WrongIds) {
        answer["id"] = another(&answer["id"], 1000);
    }
    if script.does(&Quirk::AnswersInBatches) {
        answer = json!([answer]);
    }
    let mut bytes = with_many_letters(answer.to_string().into_bytes());
    if script.does(&Quirk::BadUtf8) {
        bytes = with_broken_bytes(bytes);
    }
    if script.does(&Quirk::HalfALine) {
        outlet.send(Frame::Half(bytes));
        return outlet.send(Frame::Cut);
    }
    if script.does(&Quirk::ClosesStreamMidAnswer) {
        outlet.send(Frame::Half(bytes));
        return outlet.send(Frame::Stop);
    }
    if script.does(&Quirk::AnswersTwice) {
        outlet.send(Frame::Message(bytes.clone()));
    }
    outlet.send(Frame::Message(bytes));
}

fn garbage(actor: &Actor) -> usize {
    let lines = actor.script.quirk_with(|quirk| {
        if let Quirk::FloodsStdoutWithGarbage { lines } = quirk { Some(*lines) } else { None }
    });
    match actor.life {
        Life::Stdio if actor.has_answered() => 0,
        Life::Stdio | Life::Network | Life::Guest => lines.unwrap_or(0),
    }
}

fn enlarge(script: &Script, answer: &mut Value) {
    let huge =
        script.quirk_with(
            |quirk| {
                if let Quirk::HugeLine { bytes } = quirk { Some(*bytes) } else { None }
            },
        );
    if let Some(bytes) = huge {
        annotate(answer, "padding", json!("x".repeat(bytes)));
    }
}

/// Puts a member into the `_meta` of a result, or the data of an error.
fn annotate(answer: &mut Value, member: &str, value: Value) {
    match answer.get("result").is_some() {
        true => answer["result"]["_meta"][member] = value,
        false => answer["error"]["data"][member] = value,
    }
}

/// An id that is not this one.
fn another(id: &Value, distance: i64) -> Value {
    match id.as_i64() {
        Some(number) => json!(number + distance),
        None => json!(format!("{}-of-somebody-else", id.as_str().unwrap_or_default())),
    }
}

fn with_broken_bytes(text: Vec<u8>) -> Vec<u8> {
    let placeholder = json!(PLACEHOLDER).to_string();
    let placeholder = placeholder.trim_matches('"').as_bytes();
    match text.windows(placeholder.len()).position(|it| it == placeholder) {
        None => text,
        Some(at) => {
            let (front, back) = (&text[..at], &text[at + placeholder.len()..]);
            [front, b"\xff\xfe\x80", back].concat()
        }
    }
}
