//! Frames as the body of an HTTP answer: a stream of events, or one document.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use axum::body::Body;
use futures_util::stream;
use tokio::sync::mpsc;

use super::outlet::{Frame, Reader};
use crate::quirk::Quirk;
use crate::script::Script;

/// How large the pieces are that a slow server sends, and how long it pauses between them.
pub const DROP: usize = 16;
pub const PAUSE: Duration = Duration::from_millis(1);
/// How long what was sent has to be written.
const FLUSH: Duration = Duration::from_millis(10);

/// Where the frames come from.
#[derive(Debug)]
pub enum Source {
    Direct(mpsc::UnboundedReceiver<Frame>),
    Kept(Reader),
}

impl Source {
    async fn next(&mut self) -> Option<(Option<String>, Frame)> {
        match self {
            Source::Direct(frames) => Some((None, frames.recv().await?)),
            Source::Kept(reader) => reader.next().await.map(|(id, frame)| (Some(id), frame)),
        }
    }
}

/// Speed of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    AtOnce,
    Dripping,
}

#[derive(Debug)]
enum Step {
    Bytes(Vec<u8>),
    Break,
    End,
}

#[derive(Debug)]
struct Flow {
    source: Option<Source>,
    steps: VecDeque<Step>,
    pace: Pace,
    begun: Begun,
}

/// Whether there is something that has to be on its way before the connection may break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Yes,
    NotYet,
}

impl Flow {
    fn new(source: Option<Source>, steps: VecDeque<Step>, pace: Pace) -> Flow {
        Flow { source, steps, pace, begun: Begun::NotYet }
    }
}

/// A stream of events, after some bytes that come first.
pub fn events(script: &Script, first: Vec<u8>, source: Source) -> Body {
    let steps = VecDeque::from([Step::Bytes(first)]);
    Body::from_stream(chunks(Flow::new(Some(source), steps, pace(script))))
}

/// One document: all frames there will be, one after the other.
pub async fn document(script: &Script, mut frames: mpsc::UnboundedReceiver<Frame>) -> Body {
    let mut steps = VecDeque::new();
    while let Some(frame) = frames.recv().await {
        steps.extend(steps_of(frame, |bytes| bytes));
    }
    let whole: Option<Vec<&[u8]>> = steps
        .iter()
        .map(|step| if let Step::Bytes(bytes) = step { Some(bytes.as_slice()) } else { None })
        .collect();
    match (pace(script), whole) {
        (Pace::AtOnce, Some(parts)) => Body::from(parts.concat()),
        (pace, _) => Body::from_stream(chunks(Flow::new(None, steps, pace))),
    }
}

/// A body that breaks off before anything is answered.
pub fn broken() -> Body {
    let steps = VecDeque::from([Step::Break]);
    Body::from_stream(chunks(Flow::new(None, steps, Pace::AtOnce)))
}

fn pace(script: &Script) -> Pace {
    match script.does(&Quirk::SlowDrip) {
        true => Pace::Dripping,
        false => Pace::AtOnce,
    }
}

fn chunks(flow: Flow) -> impl stream::Stream<Item = io::Result<Vec<u8>>> + Send {
    stream::unfold(flow, |mut flow| async move {
        loop {
            match flow.steps.pop_front() {
                Some(Step::Bytes(mut bytes)) => {
                    flow.begun = Begun::Yes;
                    if flow.pace == Pace::Dripping && bytes.len() > DROP {
                        flow.steps.push_front(Step::Bytes(bytes.split_off(DROP)));
                        tokio::time::sleep(PAUSE).await;
                    }
                    return Some((Ok(bytes), flow));
                }
                Some(Step::Break) => {
                    flow.source = None;
                    if flow.begun == Begun::Yes {
                        // What an error finds unwritten is never written.
                        tokio::time::sleep(FLUSH).await;
                    }
                    return Some((Err(io::ErrorKind::BrokenPipe.into()), flow));
                }
                Some(Step::End) => return None,
                None => {
                    let (id, frame) = flow.source.as_mut()?.next().await?;
                    flow.steps.extend(steps_of(frame, |bytes| event(id.as_deref(), bytes)));
                }
            }
        }
    })
}

fn steps_of(frame: Frame, wrap: impl Fn(Vec<u8>) -> Vec<u8>) -> Option<Step> {
    match frame {
        Frame::Message(bytes) => Some(Step::Bytes(wrap(bytes))),
        Frame::Half(bytes) => {
            let mut wrapped = wrap(bytes);
            wrapped.truncate(wrapped.len() / 2);
            Some(Step::Bytes(wrapped))
        }
        Frame::Cut => Some(Step::Break),
        Frame::Stop => Some(Step::End),
    }
}

/// One event, with an id where it can be asked for again.
fn event(id: Option<&str>, data: Vec<u8>) -> Vec<u8> {
    let head = match id {
        Some(id) => format!("id: {id}\nevent: message\ndata: "),
        None => "event: message\ndata: ".to_owned(),
    };
    [head.as_bytes(), &data, b"\n\n"].concat()
}
