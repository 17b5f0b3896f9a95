//! Trace export, configured by the OpenTelemetry variables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard::auth::fetch::HttpFetcher;
use switchboard::config::display;
use switchboard_gateway::{ParentSampling, Sampler, TraceExport, Tracer};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::report;
use crate::runtime::network;

type EnvVars = BTreeMap<String, String>;

/// How long the collector may take for one request, and for the last ones together.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The task that exports traces.
#[derive(Debug)]
pub struct TraceExportTask(Option<JoinHandle<()>>);

impl TraceExportTask {
    /// Waits until the last spans are sent, with a timeout. The tracer must be dropped first.
    pub async fn finish(self) {
        if let Some(mut task) = self.0
            && timeout(EXPORT_TIMEOUT, &mut task).await.is_err()
        {
            task.abort();
        }
    }
}

/// The tracer for the collector in the variables; disabled if they name none. Must be called inside a runtime.
pub fn tracer(invocation: &Invocation) -> Result<(Tracer, TraceExportTask), Failure> {
    let variables: &EnvVars = &invocation.env.variables;
    let Some(endpoint) = endpoint(variables)? else {
        return Ok((Tracer::disabled(), TraceExportTask(None)));
    };
    let protocol = first_non_empty(
        variables,
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    );
    if protocol.is_some_and(|it| it == "grpc") {
        report::print_stderr(
            "note: traces are sent as http/json, whatever OTEL_EXPORTER_OTLP_PROTOCOL says\n",
        );
    }
    let named = first_non_empty(
        variables,
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_HEADERS",
    );
    let (tracer, sending) = Tracer::with_export(TraceExport {
        fetch: Arc::new(
            HttpFetcher::new(network::outbound_network(invocation)?).with_timeout(EXPORT_TIMEOUT),
        ),
        endpoint,
        headers: TraceExport::headers(parse_pairs(named.unwrap_or_default()))
            .ok_or_else(|| invalid_variable("OTEL_EXPORTER_OTLP_HEADERS"))?,
        resource: resource_attributes(variables),
        sampler: sampler(variables)?,
        batch_delay: export_delay(variables)?,
    });
    Ok((tracer, TraceExportTask(Some(tokio::spawn(sending)))))
}

fn invalid_variable(variable: &str) -> Failure {
    Failure::new(Exit::Configuration, &format!("{variable} is invalid"))
}

fn non_empty<'v>(variables: &'v EnvVars, name: &str) -> Option<&'v str> {
    variables.get(name).map(|it| it.trim()).filter(|it| !it.is_empty())
}

fn first_non_empty<'v>(variables: &'v EnvVars, first: &str, second: &str) -> Option<&'v str> {
    non_empty(variables, first).or_else(|| non_empty(variables, second))
}

fn endpoint(variables: &EnvVars) -> Result<Option<Url>, Failure> {
    let is_off = non_empty(variables, "OTEL_SDK_DISABLED")
        .is_some_and(|it| it.eq_ignore_ascii_case("true"))
        || non_empty(variables, "OTEL_TRACES_EXPORTER") == Some("none");
    if is_off {
        return Ok(None);
    }
    let (name, text) = match non_empty(variables, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        Some(text) => ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", text.to_owned()),
        None => match non_empty(variables, "OTEL_EXPORTER_OTLP_ENDPOINT") {
            // This variable is for all signals, so the path for traces is appended.
            Some(text) => {
                ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}/v1/traces", text.trim_end_matches('/')))
            }
            None => return Ok(None),
        },
    };
    let url = Url::parse(&text).ok().filter(|it| matches!(it.scheme(), "http" | "https"));
    url.map(Some).ok_or_else(|| {
        let message =
            format!("{name}: `{}` is not an http or https URL", display::masked_url(&text));
        Failure::new(Exit::Configuration, &message)
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
            endpoint(&variables(pairs)).map(|it| it.map(|url| url.to_string())).ok()
        };
        let common = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/x");
        assert_eq!(of(&[]), Some(None));
        assert_eq!(of(&[common]), Some(Some("http://h:4318/v1/traces".to_owned())));
        assert_eq!(of(&[common, own]), Some(Some("https://t/x".to_owned())));
        assert_eq!(of(&[common, ("OTEL_SDK_DISABLED", "TRUE")]), Some(None));
        assert_eq!(of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://h")]), None);
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
    fn a_sampler_is_one_of_the_words_that_everybody_uses() {
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
