//! What is told of requests to whoever collects traces: a span for each request, and one for each time that a server is
//! asked. Where nobody collects them nothing is made. `span_export` sends them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use switchboard_wire::jsonrpc::message::RpcError;
use tokio::sync::mpsc;

use crate::relay::InboundRequest;
use crate::telemetry::trace_context::TraceContext;

/// The longest text that is told, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// Which requests are told of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// The share of traces, from 0 to 1.
    pub ratio: f64,
    /// Who decides about traces that begin elsewhere.
    pub remote_parent: ParentSampling,
}

/// Who decides about traces that begin elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentSampling {
    /// Whoever began them.
    Inherit,
    /// The share, as for our own.
    Ratio,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler { ratio: 1.0, remote_parent: ParentSampling::Inherit }
    }
}

impl Sampler {
    /// Every sampler decides the same about the same trace, so that shares of several programs meet.
    fn samples(&self, parent: Option<&TraceContext>, trace: &[u8; 16]) -> bool {
        if let (Some(parent), ParentSampling::Inherit) = (parent, self.remote_parent) {
            return parent.is_sampled;
        }
        let last = trace.last_chunk::<8>().map_or(0, |it| u64::from_be_bytes(*it)) >> 1;
        let bound = (self.ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64;
        last < bound
    }
}

/// Tells of requests. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<SpanRecorder>>);

#[derive(Debug)]
pub(crate) struct SpanRecorder {
    pub(crate) sampler: Sampler,
    pub(crate) sender: mpsc::Sender<Box<Span>>,
    pub(crate) dropped: Arc<AtomicU64>,
}

/// Something that took some time.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<[u8; 8]>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) start: SystemTime,
    pub(crate) duration: Duration,
    pub(crate) attributes: Vec<(&'static str, String)>,
    pub(crate) error: Option<String>,
}

/// Which side of a request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Server,
    Client,
}

impl Tracer {
    /// Tells nobody.
    pub fn disabled() -> Tracer {
        Tracer(None)
    }

    pub(crate) fn with_recorder(recorder: SpanRecorder) -> Tracer {
        Tracer(Some(Arc::new(recorder)))
    }

    /// How many spans were lost because nobody took them in time.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |it| it.dropped.load(Ordering::Relaxed))
    }

    /// A request of a client.
    pub(crate) fn start_request(&self, request: &InboundRequest) -> ActiveSpan {
        let Some(recorder) = &self.0 else { return ActiveSpan(None) };
        let target = match &*request.method {
            "tools/call" | "prompts/get" => {
                request.params.get_string("name").map(|it| truncated(&it))
            }
            _ => None,
        };
        let name = match &target {
            Some(target) => format!("{} {target}", truncated(&request.method)),
            None => truncated(&request.method),
        };
        let mut span = start_span(recorder, SpanKind::Server, name, request.origin.parent.as_ref());
        span.set_attribute("mcp.method.name", || truncated(&request.method));
        span.set_attribute("jsonrpc.request.id", || request.origin.id_text());
        if let Some(session) = request.client.session_digest() {
            span.set_attribute("mcp.session.id", || session.to_string());
        }
        span.set_target(&request.method, target.as_deref());
        span
    }

    /// A server is asked, for a client.
    pub(crate) fn start_upstream(&self, request: &InboundRequest, server: &str) -> ActiveSpan {
        let Some(recorder) = &self.0 else { return ActiveSpan(None) };
        let mut span = start_span(
            recorder,
            SpanKind::Client,
            truncated(&request.method),
            request.origin.span.as_ref(),
        );
        span.set_attribute("mcp.method.name", || truncated(&request.method));
        span.set_attribute("switchboard.server", || truncated(server));
        span
    }

    /// A server is asked to run a tool, which it calls so.
    pub(crate) fn start_upstream_call(
        &self,
        request: &InboundRequest,
        server: &str,
        tool: &str,
    ) -> ActiveSpan {
        let mut span = self.start_upstream(request, server);
        if let Some(recording) = &mut span.0 {
            recording.span.name = format!("{} {}", truncated(&request.method), truncated(tool));
        }
        span.set_target(&request.method, Some(tool));
        span
    }
}

fn start_span(
    recorder: &Arc<SpanRecorder>,
    kind: SpanKind,
    name: String,
    parent: Option<&TraceContext>,
) -> ActiveSpan {
    let context = parent.map_or_else(TraceContext::new_root, |it| it.child());
    // A client span is told of where its request is.
    let is_sampled_here = match (kind, parent) {
        (SpanKind::Client, Some(parent)) => parent.is_sampled,
        (SpanKind::Client, None) => false,
        (SpanKind::Server, parent) => recorder.sampler.samples(parent, &context.trace),
    };
    if !is_sampled_here {
        return ActiveSpan(None);
    }
    let span = Span {
        context: TraceContext { is_sampled: true, ..context },
        parent: parent.map(|it| it.span),
        name,
        kind,
        start: SystemTime::now(),
        duration: Duration::ZERO,
        attributes: Vec::with_capacity(6),
        error: Some("cancelled".to_owned()),
    };
    let (recorder, started) = (recorder.clone(), Instant::now());
    ActiveSpan(Some(Box::new(RecordingSpan { recorder, started, span })))
}

/// A span that is not over. It is told of when it is dropped: as called off, unless somebody said how it ended.
pub(crate) struct ActiveSpan(Option<Box<RecordingSpan>>);

struct RecordingSpan {
    recorder: Arc<SpanRecorder>,
    started: Instant,
    span: Span,
}

impl fmt::Debug for ActiveSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Underway({:?})", self.0.as_ref().map(|it| &it.span.name))
    }
}

impl ActiveSpan {
    /// The place in the trace that what follows belongs to.
    pub(crate) fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|it| it.span.context)
    }

    fn set_attribute(&mut self, name: &'static str, value: impl FnOnce() -> String) {
        if let Some(recording) = &mut self.0 {
            recording.span.attributes.push((name, value()));
        }
    }

    fn set_target(&mut self, method: &str, target: Option<&str>) {
        let Some(target) = target else { return };
        match method {
            "tools/call" => {
                self.set_attribute("gen_ai.operation.name", || "execute_tool".to_owned());
                self.set_attribute("gen_ai.tool.name", || truncated(target));
            }
            _ => self.set_attribute("gen_ai.prompt.name", || truncated(target)),
        }
    }

    /// It ended with an error of this kind, or well.
    pub(crate) fn finish(mut self, error: Option<&str>) {
        if let Some(recording) = &mut self.0 {
            recording.span.error = error.map(str::to_owned);
        }
    }

    /// It ended with an answer.
    pub(crate) fn finish_with<T>(mut self, outcome: &Result<T, RpcError>) {
        let code = outcome.as_ref().err().map(|it| it.code.to_string());
        if let Some(code) = &code {
            self.set_attribute("rpc.response.status_code", || code.clone());
        }
        self.finish(code.as_deref());
    }
}

impl Drop for ActiveSpan {
    fn drop(&mut self) {
        let Some(recording) = self.0.take() else { return };
        let RecordingSpan { recorder, started, mut span } = *recording;
        span.duration = started.elapsed();
        if recorder.sender.try_send(Box::new(span)).is_err() {
            recorder.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn truncated(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_traces_is_taken_and_those_from_elsewhere_are_followed() {
        let half = Sampler { ratio: 0.5, ..Sampler::default() };
        let low = [0; 16];
        let high = [0xff; 16];
        assert!(half.samples(None, &low) && !half.samples(None, &high));
        let parent = TraceContext::new_root();
        assert!(half.samples(Some(&parent), &high));
        let unsampled = TraceContext { is_sampled: false, ..parent };
        assert!(!half.samples(Some(&unsampled), &low));
        let alone = Sampler { remote_parent: ParentSampling::Ratio, ..half };
        assert!(alone.samples(Some(&unsampled), &low) && !alone.samples(Some(&parent), &high));
        let none = Sampler { ratio: 0.0, ..Sampler::default() };
        assert!(!none.samples(None, &low) && Sampler::default().samples(None, &high));
    }
}
