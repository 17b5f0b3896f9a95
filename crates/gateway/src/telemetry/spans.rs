//! Spans of client requests, and of the requests to servers that they cause. A disabled tracer creates nothing.
//! `otlp` exports the spans.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use switchboard_wire::jsonrpc::message::RpcError;
use tokio::sync::mpsc;

use crate::method::Method;
use crate::telemetry::trace_context::TraceContext;

/// The longest text of an attribute, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// Decides which traces are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// The ratio of traces to record, from 0 to 1.
    pub ratio: f64,
    /// How to decide on traces that a client started.
    pub remote_parent: ParentSampling,
}

/// How to decide on traces that a client started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentSampling {
    /// As the client decided (the `sampled` flag).
    Inherit,
    /// By the ratio, like traces that start here.
    Ratio,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler { ratio: 1.0, remote_parent: ParentSampling::Inherit }
    }
}

impl Sampler {
    /// Decides by the trace id, so that programs with the same ratio record the same traces.
    fn samples(&self, parent: Option<&TraceContext>, trace: &[u8; 16]) -> bool {
        if let (Some(parent), ParentSampling::Inherit) = (parent, self.remote_parent) {
            return parent.is_sampled;
        }
        let last = trace.last_chunk::<8>().map_or(0, |it| u64::from_be_bytes(*it)) >> 1;
        let bound = (self.ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64;
        last < bound
    }
}

/// Records spans. Clones share the recorder.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<SpanRecorder>>);

#[derive(Debug)]
pub(crate) struct SpanRecorder {
    pub(crate) sampler: Sampler,
    pub(crate) sender: mpsc::Sender<Box<Span>>,
    pub(crate) dropped: Arc<AtomicU64>,
}

/// A finished span, or one that is being recorded.
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

/// The side of the request that a span describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Server,
    Client,
}

impl Tracer {
    /// A tracer that records nothing.
    pub fn disabled() -> Tracer {
        Tracer(None)
    }

    pub(crate) fn with_recorder(recorder: SpanRecorder) -> Tracer {
        Tracer(Some(Arc::new(recorder)))
    }

    /// The number of spans that could not be exported.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |it| it.dropped.load(Ordering::Relaxed))
    }

    /// Starts the span of a client's request. The attributes are only built where the tracer is enabled.
    pub(crate) fn start_request<'a>(
        &self,
        attributes: impl FnOnce() -> RequestAttributes<'a>,
    ) -> ActiveSpan {
        let Some(recorder) = &self.0 else { return ActiveSpan(None) };
        let RequestAttributes { method, target, id, session, parent } = attributes();
        let method_name = truncated(method.as_str());
        let target = target.map(|it| truncated(&it));
        let name = match &target {
            Some(target) => format!("{method_name} {target}"),
            None => method_name.clone(),
        };
        let mut span = start_span(recorder, SpanKind::Server, name, parent.as_ref());
        span.set_attribute("mcp.method.name", || method_name);
        span.set_attribute("jsonrpc.request.id", || id);
        if let Some(session) = session {
            span.set_attribute("mcp.session.id", || session.to_owned());
        }
        span.set_target(method, target.as_deref());
        span
    }

    /// Starts the span of a request to a server.
    pub(crate) fn start_upstream(&self, attributes: &UpstreamAttributes<'_>) -> ActiveSpan {
        let Some(recorder) = &self.0 else { return ActiveSpan(None) };
        let UpstreamAttributes { method, server, tool, parent } = attributes;
        let method_name = truncated(method.as_str());
        let name = match tool {
            Some(tool) => format!("{method_name} {}", truncated(tool)),
            None => method_name.clone(),
        };
        let mut span = start_span(recorder, SpanKind::Client, name, parent.as_ref());
        span.set_attribute("mcp.method.name", || method_name);
        span.set_attribute("switchboard.server", || truncated(server));
        span.set_target(method, *tool);
        span
    }
}

/// The attributes of a client's request.
#[derive(Debug)]
pub(crate) struct RequestAttributes<'a> {
    pub(crate) method: &'a Method,
    /// The name of the tool or prompt.
    pub(crate) target: Option<String>,
    /// The request's id.
    pub(crate) id: String,
    /// A digest of the session's id.
    pub(crate) session: Option<&'a str>,
    /// The client's span.
    pub(crate) parent: Option<TraceContext>,
}

/// The attributes of a request to a server.
#[derive(Debug)]
pub(crate) struct UpstreamAttributes<'a> {
    pub(crate) method: &'a Method,
    pub(crate) server: &'a str,
    /// The tool's name at the server.
    pub(crate) tool: Option<&'a str>,
    /// The span of the client's request.
    pub(crate) parent: Option<TraceContext>,
}

fn start_span(
    recorder: &Arc<SpanRecorder>,
    kind: SpanKind,
    name: String,
    parent: Option<&TraceContext>,
) -> ActiveSpan {
    let context = parent.map_or_else(TraceContext::new_root, |it| it.child());
    // A client span is recorded if the span of its request is.
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

/// A span that has not ended. Dropping it records it, as cancelled unless it was finished.
pub(crate) struct ActiveSpan(Option<Box<RecordingSpan>>);

struct RecordingSpan {
    recorder: Arc<SpanRecorder>,
    started: Instant,
    span: Span,
}

impl fmt::Debug for ActiveSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActiveSpan({:?})", self.0.as_ref().map(|it| &it.span.name))
    }
}

impl ActiveSpan {
    /// The context that child spans belong to.
    pub(crate) fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|it| it.span.context)
    }

    fn set_attribute(&mut self, name: &'static str, value: impl FnOnce() -> String) {
        if let Some(recording) = &mut self.0 {
            recording.span.attributes.push((name, value()));
        }
    }

    fn set_target(&mut self, method: &Method, target: Option<&str>) {
        let Some(target) = target else { return };
        if *method == Method::ToolsCall {
            self.set_attribute("gen_ai.operation.name", || "execute_tool".to_owned());
            self.set_attribute("gen_ai.tool.name", || truncated(target));
        } else {
            self.set_attribute("gen_ai.prompt.name", || truncated(target));
        }
    }

    /// Ends the span with an error of this kind, or without one.
    pub(crate) fn finish(mut self, error: Option<&str>) {
        if let Some(recording) = &mut self.0 {
            recording.span.error = error.map(str::to_owned);
        }
    }

    /// Ends the span with the outcome of its request.
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
    fn the_ratio_decides_on_own_traces_and_the_parent_on_others() {
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
