//! What is told of requests to whoever collects traces: a span for each request, and one for each time that a server is
//! asked. Where nobody collects them nothing is made. `span_export` sends them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use switchboard_wire::message::RemoteError;
use tokio::sync::mpsc;

use crate::relay::Asked;
use crate::trace_context::TraceContext;

/// The longest text that is told, in characters.
const LONGEST: usize = 200;

/// Which requests are told of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// The share of traces, from 0 to 1.
    pub share: f64,
    /// Who decides about traces that begin elsewhere.
    pub elsewhere: Elsewhere,
}

/// Who decides about traces that begin elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// Whoever began them.
    Followed,
    /// The share, as for our own.
    Shared,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler { share: 1.0, elsewhere: Elsewhere::Followed }
    }
}

impl Sampler {
    /// Every sampler decides the same about the same trace, so that shares of several programs meet.
    fn takes(&self, parent: Option<&TraceContext>, trace: &[u8; 16]) -> bool {
        if let (Some(parent), Elsewhere::Followed) = (parent, self.elsewhere) {
            return parent.is_sampled;
        }
        let last = trace.last_chunk::<8>().map_or(0, |it| u64::from_be_bytes(*it)) >> 1;
        let bound = (self.share.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64;
        last < bound
    }
}

/// Tells of requests. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Telling>>);

#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) sampler: Sampler,
    pub(crate) sink: mpsc::Sender<Box<Span>>,
    pub(crate) lost: Arc<AtomicU64>,
}

/// Something that took some time.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<[u8; 8]>,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) began: SystemTime,
    pub(crate) took: Duration,
    pub(crate) attributes: Vec<(&'static str, String)>,
    pub(crate) error: Option<String>,
}

/// Which side of a request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Server,
    Client,
}

impl Tracer {
    /// Tells nobody.
    pub fn off() -> Tracer {
        Tracer(None)
    }

    pub(crate) fn telling(telling: Telling) -> Tracer {
        Tracer(Some(Arc::new(telling)))
    }

    /// How many spans were lost because nobody took them in time.
    pub(crate) fn lost(&self) -> u64 {
        self.0.as_ref().map_or(0, |it| it.lost.load(Ordering::Relaxed))
    }

    /// A request of a client.
    pub(crate) fn request(&self, asked: &Asked) -> Underway {
        let Some(telling) = &self.0 else { return Underway(None) };
        let target = match &*asked.method {
            "tools/call" | "prompts/get" => asked.params.text("name").map(|it| cut(&it)),
            _ => None,
        };
        let name = match &target {
            Some(target) => format!("{} {target}", cut(&asked.method)),
            None => cut(&asked.method),
        };
        let mut span = begin(telling, Kind::Server, name, asked.origin.trace.as_ref());
        span.say("mcp.method.name", || cut(&asked.method));
        span.say("jsonrpc.request.id", || asked.origin.request());
        if let Some(session) = asked.guest.session() {
            span.say("mcp.session.id", || session.to_string());
        }
        span.target(&asked.method, target.as_deref());
        span
    }

    /// A server is asked, for a client.
    pub(crate) fn upstream(&self, asked: &Asked, server: &str) -> Underway {
        let Some(telling) = &self.0 else { return Underway(None) };
        let mut span = begin(telling, Kind::Client, cut(&asked.method), asked.origin.span.as_ref());
        span.say("mcp.method.name", || cut(&asked.method));
        span.say("switchboard.server", || cut(server));
        span
    }

    /// A server is asked to run a tool, which it calls so.
    pub(crate) fn upstream_call(&self, asked: &Asked, server: &str, tool: &str) -> Underway {
        let mut span = self.upstream(asked, server);
        if let Some(told) = &mut span.0 {
            told.span.name = format!("{} {}", cut(&asked.method), cut(tool));
        }
        span.target(&asked.method, Some(tool));
        span
    }
}

fn begin(
    telling: &Arc<Telling>,
    kind: Kind,
    name: String,
    parent: Option<&TraceContext>,
) -> Underway {
    let context = parent.map_or_else(TraceContext::begin, |it| it.child());
    // A client span is told of where its request is.
    let is_taken = match (kind, parent) {
        (Kind::Client, Some(parent)) => parent.is_sampled,
        (Kind::Client, None) => false,
        (Kind::Server, parent) => telling.sampler.takes(parent, &context.trace),
    };
    if !is_taken {
        return Underway(None);
    }
    let span = Span {
        context: TraceContext { is_sampled: true, ..context },
        parent: parent.map(|it| it.span),
        name,
        kind,
        began: SystemTime::now(),
        took: Duration::ZERO,
        attributes: Vec::with_capacity(6),
        error: Some("cancelled".to_owned()),
    };
    let (telling, since) = (telling.clone(), Instant::now());
    Underway(Some(Box::new(Told { telling, since, span })))
}

/// A span that is not over. It is told of when it is dropped: as called off, unless somebody said how it ended.
pub(crate) struct Underway(Option<Box<Told>>);

struct Told {
    telling: Arc<Telling>,
    since: Instant,
    span: Span,
}

impl fmt::Debug for Underway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Underway({:?})", self.0.as_ref().map(|it| &it.span.name))
    }
}

impl Underway {
    /// The place in the trace that what follows belongs to.
    pub(crate) fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|it| it.span.context)
    }

    fn say(&mut self, name: &'static str, value: impl FnOnce() -> String) {
        if let Some(told) = &mut self.0 {
            told.span.attributes.push((name, value()));
        }
    }

    fn target(&mut self, method: &str, target: Option<&str>) {
        let Some(target) = target else { return };
        match method {
            "tools/call" => {
                self.say("gen_ai.operation.name", || "execute_tool".to_owned());
                self.say("gen_ai.tool.name", || cut(target));
            }
            _ => self.say("gen_ai.prompt.name", || cut(target)),
        }
    }

    /// It ended with an error of this kind, or well.
    pub(crate) fn ended(mut self, error: Option<&str>) {
        if let Some(told) = &mut self.0 {
            told.span.error = error.map(str::to_owned);
        }
    }

    /// It ended with an answer.
    pub(crate) fn answered<T>(mut self, outcome: &Result<T, RemoteError>) {
        let code = outcome.as_ref().err().map(|it| it.code.to_string());
        if let Some(code) = &code {
            self.say("rpc.response.status_code", || code.clone());
        }
        self.ended(code.as_deref());
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let Some(told) = self.0.take() else { return };
        let Told { telling, since, mut span } = *told;
        span.took = since.elapsed();
        if telling.sink.try_send(Box::new(span)).is_err() {
            telling.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_traces_is_taken_and_those_from_elsewhere_are_followed() {
        let half = Sampler { share: 0.5, ..Sampler::default() };
        let low = [0; 16];
        let high = [0xff; 16];
        assert!(half.takes(None, &low) && !half.takes(None, &high));
        let parent = TraceContext::begin();
        assert!(half.takes(Some(&parent), &high));
        let unsampled = TraceContext { is_sampled: false, ..parent };
        assert!(!half.takes(Some(&unsampled), &low));
        let alone = Sampler { elsewhere: Elsewhere::Shared, ..half };
        assert!(alone.takes(Some(&unsampled), &low) && !alone.takes(Some(&parent), &high));
        let none = Sampler { share: 0.0, ..Sampler::default() };
        assert!(!none.takes(None, &low) && Sampler::default().takes(None, &high));
    }
}
