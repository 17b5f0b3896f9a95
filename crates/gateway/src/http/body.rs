//! The body of a response: bytes, or events as they arrive.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// The body of a response.
pub(crate) enum Body {
    /// The complete body; None once it was sent.
    Full(Option<Bytes>),
    /// The items of a stream. Dropping the body cancels the work behind it.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut *self {
            Body::Full(bytes) => Poll::Ready(bytes.take()),
            Body::Stream(stream) => stream.as_mut().poll_next(task),
        };
        next.map(|it| it.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |it| it.len() as u64))
            }
            Body::Stream(_) => SizeHint::default(),
        }
    }
}
