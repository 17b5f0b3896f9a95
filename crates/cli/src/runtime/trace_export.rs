//! The export of traces and of audit records to a collector, configured by the OpenTelemetry variables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard::auth::fetch::HttpFetcher;
use switchboard::config::display;
use switchboard_gateway::{
    LogExport, LogExportOptions, ParentSampling, Sampler, TraceEncoding, TraceExport, Tracer,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::report;
use crate::runtime::network;

type EnvVars = BTreeMap<String, String>;

/// How long the last batches may take when the program ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The task that exports traces.
#[derive(Debug)]
pub struct TraceExportTask(Option<JoinHandle<()>>);

impl TraceExportTask {
    /// Waits until the last spans are sent, with a timeout. The tracer must be dropped first.
    pub async fn finish(self) {
        if let Some(mut task) = self.0
            && timeout(SHUTDOWN_TIMEOUT, &mut task).await.is_err()
        {
            task.abort();
        }
    }
}

/// The tracer for the collector in the variables; disabled if they name none. Must be called inside a runtime.
pub fn tracer(invocation: &Invocation) -> Result<(Tracer, TraceExportTask), Failure> {
    let variables: &EnvVars = &invocation.env.variables;
    let Some(endpoint) = trace_endpoint(variables)? else {
        return Ok((Tracer::disabled(), TraceExportTask(None)));
    };
    let timeout = export_timeout(variables, Signal::Traces)?;
    let (headers_variable, headers) = header_pairs(variables, Signal::Traces);
    let export = TraceExport {
        fetch: Arc::new(
            HttpFetcher::new(network::outbound_network(invocation)?).with_timeout(timeout),
        ),
        endpoint,
        encoding: encoding(variables, Signal::Traces)?,
        headers: TraceExport::headers(headers).ok_or_else(|| invalid_variable(headers_variable))?,
        timeout,
        resource: resource_attributes(variables),
        sampler: sampler(variables)?,
        batch_delay: export_delay(variables)?,
    };
    let (tracer, sending) = Tracer::with_export(export).map_err(|error| {
        Failure::new(Exit::Configuration, "traces cannot be exported").caused_by(error)
    })?;
    Ok((tracer, TraceExportTask(Some(tokio::spawn(sending)))))
}

fn invalid_variable(variable: &str) -> Failure {
    Failure::new(Exit::Configuration, &format!("{variable} is invalid"))
}

fn non_empty<'v>(variables: &'v EnvVars, name: &str) -> Option<&'v str> {
    variables.get(name).map(|it| it.trim()).filter(|it| !it.is_empty())
}

/// A kind of data for a collector. Each has variables of its own besides those for all kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Traces,
    Logs,
}

impl Signal {
    /// The variable of this signal and the one for all signals.
    fn variables(self, what: &ExporterVariable) -> [&'static str; 2] {
        match self {
            Signal::Traces => [what.traces, what.all],
            Signal::Logs => [what.logs, what.all],
        }
    }

    fn path(self) -> &'static str {
        match self {
            Signal::Traces => "v1/traces",
            Signal::Logs => "v1/logs",
        }
    }
}

/// The names of one variable.
struct ExporterVariable {
    traces: &'static str,
    logs: &'static str,
    all: &'static str,
}

const ENDPOINT: ExporterVariable = ExporterVariable {
    traces: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    logs: "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    all: "OTEL_EXPORTER_OTLP_ENDPOINT",
};
const PROTOCOL: ExporterVariable = ExporterVariable {
    traces: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    logs: "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL",
    all: "OTEL_EXPORTER_OTLP_PROTOCOL",
};
const HEADERS: ExporterVariable = ExporterVariable {
    traces: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    logs: "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    all: "OTEL_EXPORTER_OTLP_HEADERS",
};
const TIMEOUT: ExporterVariable = ExporterVariable {
    traces: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    logs: "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT",
    all: "OTEL_EXPORTER_OTLP_TIMEOUT",
};

/// The variable of the signal if it is set, else the one for all signals; with its name.
fn exporter_variable<'v>(
    variables: &'v EnvVars,
    names: [&'static str; 2],
) -> Option<(&'static str, &'v str)> {
    names.into_iter().find_map(|name| Some((name, non_empty(variables, name)?)))
}

/// The encoding of `OTEL_EXPORTER_OTLP_PROTOCOL`. gRPC is a standard value, so it may be meant for other programs.
fn encoding(variables: &EnvVars, signal: Signal) -> Result<TraceEncoding, Failure> {
    match exporter_variable(variables, signal.variables(&PROTOCOL)) {
        None | Some((_, "http/protobuf")) => Ok(TraceEncoding::Protobuf),
        Some((_, "http/json")) => Ok(TraceEncoding::Json),
        Some((name, "grpc")) => {
            let subject = match signal {
                Signal::Traces => "traces",
                Signal::Logs => "audit records",
            };
            report::print_stderr(&format!(
                "note: {subject} are sent as http/protobuf, although {name} is grpc; the endpoint must be the collector's \
                 HTTP port (usually 4318)\n"
            ));
            Ok(TraceEncoding::Protobuf)
        }
        Some((name, _)) => {
            let message = format!("{name} is invalid: use http/protobuf or http/json");
            Err(Failure::new(Exit::Configuration, &message))
        }
    }
}

/// The headers for the collector, with the name of their variable.
fn header_pairs(variables: &EnvVars, signal: Signal) -> (&'static str, Vec<(String, String)>) {
    match exporter_variable(variables, signal.variables(&HEADERS)) {
        Some((name, text)) => (name, parse_pairs(text)),
        None => (HEADERS.all, Vec::new()),
    }
}

/// How long the collector may take for one batch, in milliseconds.
fn export_timeout(variables: &EnvVars, signal: Signal) -> Result<Duration, Failure> {
    let Some((name, text)) = exporter_variable(variables, signal.variables(&TIMEOUT)) else {
        return Ok(TraceExport::DEFAULT_TIMEOUT);
    };
    let milliseconds = text.parse().ok().filter(|it| *it > 0);
    milliseconds.map(Duration::from_millis).ok_or_else(|| invalid_variable(name))
}

/// The endpoint for traces; `None` if they are off.
fn trace_endpoint(variables: &EnvVars) -> Result<Option<Url>, Failure> {
    let is_off = non_empty(variables, "OTEL_SDK_DISABLED")
        .is_some_and(|it| it.eq_ignore_ascii_case("true"))
        || non_empty(variables, "OTEL_TRACES_EXPORTER") == Some("none");
    if is_off { Ok(None) } else { endpoint(variables, Signal::Traces) }
}

fn endpoint(variables: &EnvVars, signal: Signal) -> Result<Option<Url>, Failure> {
    let [own, all] = signal.variables(&ENDPOINT);
    let (name, text) = match (non_empty(variables, own), non_empty(variables, all)) {
        (Some(text), _) => (own, text.to_owned()),
        // This variable is for all signals, so the path of the signal is appended.
        (None, Some(text)) => (all, format!("{}/{}", text.trim_end_matches('/'), signal.path())),
        (None, None) => return Ok(None),
    };
    let url = Url::parse(&text).ok().filter(|it| matches!(it.scheme(), "http" | "https"));
    url.map(Some).ok_or_else(|| {
        let message =
            format!("{name}: `{}` is not an http or https URL", display::masked_url(&text));
        Failure::new(Exit::Configuration, &message)
    })
}

/// The export of audit records as logs. The settings ask for it, so a missing endpoint is an error.
pub fn log_export(invocation: &Invocation) -> Result<LogExport, Failure> {
    let variables: &EnvVars = &invocation.env.variables;
    let Some(endpoint) = endpoint(variables, Signal::Logs)? else {
        let message = "the setting `audit.otlp` needs the URL of a collector";
        return Err(Failure::new(Exit::Configuration, message)
            .hint("set OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"));
    };
    let timeout = export_timeout(variables, Signal::Logs)?;
    let (headers_variable, headers) = header_pairs(variables, Signal::Logs);
    let options = LogExportOptions {
        fetch: Arc::new(
            HttpFetcher::new(network::outbound_network(invocation)?).with_timeout(timeout),
        ),
        endpoint,
        encoding: encoding(variables, Signal::Logs)?,
        headers: TraceExport::headers(headers).ok_or_else(|| invalid_variable(headers_variable))?,
        timeout,
        resource: resource_attributes(variables),
    };
    LogExport::new(options).map_err(|error| {
        Failure::new(Exit::Configuration, "audit records cannot be exported").caused_by(error)
    })
}

/// Parses `name=value,name=value` with percent-encoding.
fn parse_pairs(text: &str) -> Vec<(String, String)> {
    let pair = |it: &str| {
        let (name, value) = it.split_once('=')?;
        Some((percent_decode(name.trim()), percent_decode(value.trim())))
    };
    text.split(',').filter_map(pair).collect()
}

fn percent_decode(text: &str) -> String {
    // A plus sign is literal here, unlike in form encoding.
    let form = format!("x={}", text.replace('+', "%2B").replace('&', "%26"));
    url::form_urlencoded::parse(form.as_bytes())
        .map(|it| it.1.into_owned())
        .next()
        .unwrap_or_default()
}

fn resource_attributes(variables: &EnvVars) -> Vec<(String, String)> {
    let mut resource =
        parse_pairs(non_empty(variables, "OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
    if let Some(name) = non_empty(variables, "OTEL_SERVICE_NAME") {
        resource.retain(|it| it.0 != "service.name");
        resource.push(("service.name".to_owned(), name.to_owned()));
    }
    for (name, value) in
        [("service.name", "switchboard"), ("service.version", env!("CARGO_PKG_VERSION"))]
    {
        if !resource.iter().any(|it| it.0 == name) {
            resource.push((name.to_owned(), value.to_owned()));
        }
    }
    resource
}

fn sampler(variables: &EnvVars) -> Result<Sampler, Failure> {
    let share = match non_empty(variables, "OTEL_TRACES_SAMPLER_ARG") {
        None => 1.0,
        Some(text) => {
            let share = text.parse::<f64>().ok().filter(|it| (0.0..=1.0).contains(it));
            share.ok_or_else(|| invalid_variable("OTEL_TRACES_SAMPLER_ARG"))?
        }
    };
    let (share, elsewhere) = match non_empty(variables, "OTEL_TRACES_SAMPLER") {
        None | Some("parentbased_always_on") => (1.0, ParentSampling::Inherit),
        Some("always_on") => (1.0, ParentSampling::Ratio),
        Some("always_off") => (0.0, ParentSampling::Ratio),
        Some("parentbased_always_off") => (0.0, ParentSampling::Inherit),
        Some("traceidratio") => (share, ParentSampling::Ratio),
        Some("parentbased_traceidratio") => (share, ParentSampling::Inherit),
        Some(_) => return Err(invalid_variable("OTEL_TRACES_SAMPLER")),
    };
    Ok(Sampler { ratio: share, remote_parent: elsewhere })
}

fn export_delay(variables: &EnvVars) -> Result<Duration, Failure> {
    match non_empty(variables, "OTEL_BSP_SCHEDULE_DELAY") {
        None => Ok(TraceExport::DEFAULT_BATCH_DELAY),
        Some(text) => match text.parse() {
            Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
            Err(_) => Err(invalid_variable("OTEL_BSP_SCHEDULE_DELAY")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> EnvVars {
        pairs.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect()
    }

    #[test]
    fn the_address_for_traces_counts_and_the_common_one_gets_a_path() {
        let of = |pairs: &[(&str, &str)]| {
            trace_endpoint(&variables(pairs)).map(|it| it.map(|url| url.to_string())).ok()
        };
        let of_logs = |pairs: &[(&str, &str)]| {
            endpoint(&variables(pairs), Signal::Logs).ok().flatten().map(|it| it.to_string())
        };
        let common = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/x");
        assert_eq!(of(&[]), Some(None));
        assert_eq!(of(&[common]), Some(Some("http://h:4318/v1/traces".to_owned())));
        assert_eq!(of(&[common, own]), Some(Some("https://t/x".to_owned())));
        assert_eq!(of(&[common, ("OTEL_SDK_DISABLED", "TRUE")]), Some(None));
        assert_eq!(of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://h")]), None);
        assert_eq!(of_logs(&[common, own]).as_deref(), Some("http://h:4318/v1/logs"));
        assert_eq!(of_logs(&[own]), None);
    }

    #[test]
    fn headers_and_attributes_are_read_as_pairs() {
        let read = parse_pairs("Authorization=Basic%20YWE+=, x=a&b,,bad");
        let expected = [("Authorization", "Basic YWE+="), ("x", "a&b")];
        assert_eq!(read, expected.map(|it| (it.0.to_owned(), it.1.to_owned())));
        let attributes = resource_attributes(&variables(&[
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,k=v"),
            ("OTEL_SERVICE_NAME", "b"),
        ]));
        assert_eq!(attributes[0], ("k".to_owned(), "v".to_owned()));
        assert_eq!(attributes[1], ("service.name".to_owned(), "b".to_owned()));
        assert_eq!(attributes[2].0, "service.version");
    }

    #[test]
    fn the_variable_for_traces_decides_on_encoding_headers_and_timeout() {
        let of = |pairs: &[(&str, &str)]| {
            let variables = variables(pairs);
            let (name, headers) = header_pairs(&variables, Signal::Traces);
            let (encoding, timeout) = (
                encoding(&variables, Signal::Traces).ok()?,
                export_timeout(&variables, Signal::Traces).ok()?,
            );
            Some((encoding, timeout.as_millis(), name, headers.len()))
        };
        let common = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,c=d"),
        ];
        let own = [
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "750"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b"),
        ];
        let [common_headers, own_headers] = [common[2].0, own[2].0];
        let defaults = (TraceEncoding::Protobuf, 10_000, common_headers, 0);
        assert_eq!(of(&[]), Some(defaults));
        assert_eq!(of(&common), Some((TraceEncoding::Json, 250, common_headers, 2)));
        let both = [common, own].concat();
        assert_eq!(of(&both), Some((TraceEncoding::Protobuf, 750, own_headers, 1)));
        assert_eq!(of(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "thrift")]), None);
        assert_eq!(of(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")]), None);
        assert_eq!(of(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "0")]), None);
    }

    #[test]
    fn a_sampler_is_one_of_the_standard_names() {
        let of = |name, share| {
            let pairs = [("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", share)];
            sampler(&variables(&pairs)).ok()
        };
        let quarter = Sampler { ratio: 0.25, remote_parent: ParentSampling::Inherit };
        assert_eq!(of("parentbased_traceidratio", "0.25"), Some(quarter));
        assert_eq!(
            of("always_off", ""),
            Some(Sampler { ratio: 0.0, remote_parent: ParentSampling::Ratio })
        );
        assert_eq!(of("traceidratio", "7"), None);
        assert_eq!(of("sometimes", "1"), None);
    }
}
