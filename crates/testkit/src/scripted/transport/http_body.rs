//! HTTP response bodies from frames: an event stream or one JSON document.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use axum::body::Body;
use futures_util::stream;
use tokio::sync::mpsc;

use crate::scripted::client_channel::{Frame, ReplayReader};
use crate::scripted::quirk::Quirk;
use crate::scripted::script::Script;

/// The chunk size of a slow server, and the pause between chunks.
pub const DRIP_BYTES: usize = 16;
pub const DRIP_PAUSE: Duration = Duration::from_millis(1);
/// How long sent bytes may take to be written before an error.
const FLUSH_TIME: Duration = Duration::from_millis(10);

/// The source of frames.
#[derive(Debug)]
pub enum Source {
    Direct(mpsc::UnboundedReceiver<Frame>),
    Replayed(ReplayReader),
}

impl Source {
    async fn next(&mut self) -> Option<(Option<String>, Frame)> {
        match self {
            Source::Direct(frames) => Some((None, frames.recv().await?)),
            Source::Replayed(reader) => reader.next().await.map(|(id, frame)| (Some(id), frame)),
        }
    }
}

/// The speed of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    Fast,
    Dripped,
}

#[derive(Debug)]
enum Step {
    Bytes(Vec<u8>),
    Fail,
    End,
}

#[derive(Debug)]
struct BodyState {
    source: Option<Source>,
    steps: VecDeque<Step>,
    pace: Pace,
    started: FirstBytes,
}

/// Whether bytes were sent that must be written before the connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstBytes {
    Sent,
    NotSent,
}

impl BodyState {
    fn new(source: Option<Source>, steps: VecDeque<Step>, pace: Pace) -> BodyState {
        BodyState { source, steps, pace, started: FirstBytes::NotSent }
    }
}

/// An event stream after a prefix.
pub fn event_stream_body(script: &Script, prefix: Vec<u8>, source: Source) -> Body {
    let steps = VecDeque::from([Step::Bytes(prefix)]);
    Body::from_stream(body_chunks(BodyState::new(Some(source), steps, pace(script))))
}

/// One document: all frames, concatenated.
pub async fn json_body(script: &Script, mut frames: mpsc::UnboundedReceiver<Frame>) -> Body {
    let mut steps = VecDeque::new();
    while let Some(frame) = frames.recv().await {
        steps.extend(body_step(frame, |bytes| bytes));
    }
    let parts: Option<Vec<&[u8]>> = steps
        .iter()
        .map(|step| if let Step::Bytes(bytes) = step { Some(bytes.as_slice()) } else { None })
        .collect();
    match (pace(script), parts) {
        (Pace::Fast, Some(parts)) => Body::from(parts.concat()),
        (pace, _) => Body::from_stream(body_chunks(BodyState::new(None, steps, pace))),
    }
}

/// A body that fails before any byte.
pub fn broken_body() -> Body {
    let steps = VecDeque::from([Step::Fail]);
    Body::from_stream(body_chunks(BodyState::new(None, steps, Pace::Fast)))
}

fn pace(script: &Script) -> Pace {
    match script.has_quirk(&Quirk::SlowDrip) {
        true => Pace::Dripped,
        false => Pace::Fast,
    }
}

fn body_chunks(state: BodyState) -> impl stream::Stream<Item = io::Result<Vec<u8>>> + Send {
    stream::unfold(state, |mut state| async move {
        loop {
            match state.steps.pop_front() {
                Some(Step::Bytes(mut bytes)) => {
                    state.started = FirstBytes::Sent;
                    if state.pace == Pace::Dripped && bytes.len() > DRIP_BYTES {
                        state.steps.push_front(Step::Bytes(bytes.split_off(DRIP_BYTES)));
                        tokio::time::sleep(DRIP_PAUSE).await;
                    }
                    return Some((Ok(bytes), state));
                }
                Some(Step::Fail) => {
                    state.source = None;
                    if state.started == FirstBytes::Sent {
                        // An error discards unwritten bytes.
                        tokio::time::sleep(FLUSH_TIME).await;
                    }
                    return Some((Err(io::ErrorKind::BrokenPipe.into()), state));
                }
                Some(Step::End) => return None,
                None => {
                    let (id, frame) = state.source.as_mut()?.next().await?;
                    state
                        .steps
                        .extend(body_step(frame, |bytes| encode_event(id.as_deref(), bytes)));
                }
            }
        }
    })
}

fn body_step(frame: Frame, wrap: impl Fn(Vec<u8>) -> Vec<u8>) -> Option<Step> {
    match frame {
        Frame::Message(bytes) => Some(Step::Bytes(wrap(bytes))),
        Frame::Truncated(bytes) => {
            let mut wrapped = wrap(bytes);
            wrapped.truncate(wrapped.len() / 2);
            Some(Step::Bytes(wrapped))
        }
        Frame::Disconnect => Some(Step::Fail),
        Frame::End => Some(Step::End),
    }
}

/// An event, with an id if it can be replayed.
fn encode_event(id: Option<&str>, data: Vec<u8>) -> Vec<u8> {
    let head = match id {
        Some(id) => format!("id: {id}\nevent: message\ndata: "),
        None => "event: message\ndata: ".to_owned(),
    };
    [head.as_bytes(), &data, b"\n\n"].concat()
}
