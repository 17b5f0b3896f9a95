//! Where traces go, as the variables that everybody uses for OpenTelemetry describe it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard::auth::fetch::Online;
use switchboard::config::shown;
use switchboard_gateway::{Elsewhere, Sampler, TraceExport, Tracer};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use crate::exit::Exit;
use crate::live;
use crate::outcome::Failure;
use crate::report;
use crate::session::Session;

type Variables = BTreeMap<String, String>;

/// How long a collector may take, for one message and for the last ones together.
const PATIENCE: Duration = Duration::from_secs(10);

/// The sending of traces.
#[derive(Debug)]
pub struct Exporting(Option<JoinHandle<()>>);

impl Exporting {
    /// Waits until the last are sent, but not for long. Whoever tells of requests must be gone.
    pub async fn end(self) {
        if let Some(mut task) = self.0
            && timeout(PATIENCE, &mut task).await.is_err()
        {
            task.abort();
        }
    }
}

/// Tells whoever the variables name; nobody where they name nobody. Must be called inside a runtime.
pub fn tracer(session: &Session) -> Result<(Tracer, Exporting), Failure> {
    let variables: &Variables = &session.machine.variables;
    let Some(endpoint) = endpoint(variables)? else {
        return Ok((Tracer::off(), Exporting(None)));
    };
    let protocol =
        either(variables, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
    if protocol.is_some_and(|it| it == "grpc") {
        report::aside(
            "note: traces are sent as http/json, whatever OTEL_EXPORTER_OTLP_PROTOCOL says\n",
        );
    }
    let named =
        either(variables, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
    let (tracer, sending) = Tracer::to(TraceExport {
        fetch: Arc::new(Online::new(live::way_out(session)?).patience(PATIENCE)),
        endpoint,
        headers: TraceExport::headers(pairs(named.unwrap_or_default()))
            .ok_or_else(|| senseless("OTEL_EXPORTER_OTLP_HEADERS"))?,
        resource: resource(variables),
        sampler: sampler(variables)?,
        delay: delay(variables)?,
    });
    Ok((tracer, Exporting(Some(tokio::spawn(sending)))))
}

fn senseless(variable: &str) -> Failure {
    Failure::new(Exit::Configuration, &format!("{variable} makes no sense"))
}

fn set<'v>(variables: &'v Variables, name: &str) -> Option<&'v str> {
    variables.get(name).map(|it| it.trim()).filter(|it| !it.is_empty())
}

fn either<'v>(variables: &'v Variables, first: &str, second: &str) -> Option<&'v str> {
    set(variables, first).or_else(|| set(variables, second))
}

fn endpoint(variables: &Variables) -> Result<Option<Url>, Failure> {
    let is_off = set(variables, "OTEL_SDK_DISABLED")
        .is_some_and(|it| it.eq_ignore_ascii_case("true"))
        || set(variables, "OTEL_TRACES_EXPORTER") == Some("none");
    if is_off {
        return Ok(None);
    }
    let (name, text) = match set(variables, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        Some(text) => ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", text.to_owned()),
        None => match set(variables, "OTEL_EXPORTER_OTLP_ENDPOINT") {
            // For all kinds of telemetry, so that the path for traces goes behind.
            Some(text) => {
                ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}/v1/traces", text.trim_end_matches('/')))
            }
            None => return Ok(None),
        },
    };
    let url = Url::parse(&text).ok().filter(|it| matches!(it.scheme(), "http" | "https"));
    url.map(Some).ok_or_else(|| {
        let message = format!("{name}: `{}` is no http or https address", shown::url(&text));
        Failure::new(Exit::Configuration, &message)
    })
}

/// `name=value,name=value`, with what is special written as `%XX`.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |it: &str| {
        let (name, value) = it.split_once('=')?;
        Some((unescaped(name.trim()), unescaped(value.trim())))
    };
    text.split(',').filter_map(pair).collect()
}

fn unescaped(text: &str) -> String {
    // A plus is a plus here, unlike in forms.
    let form = format!("x={}", text.replace('+', "%2B").replace('&', "%26"));
    url::form_urlencoded::parse(form.as_bytes())
        .map(|it| it.1.into_owned())
        .next()
        .unwrap_or_default()
}

fn resource(variables: &Variables) -> Vec<(String, String)> {
    let mut resource = pairs(set(variables, "OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
    if let Some(name) = set(variables, "OTEL_SERVICE_NAME") {
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

fn sampler(variables: &Variables) -> Result<Sampler, Failure> {
    let share = match set(variables, "OTEL_TRACES_SAMPLER_ARG") {
        None => 1.0,
        Some(text) => {
            let share = text.parse::<f64>().ok().filter(|it| (0.0..=1.0).contains(it));
            share.ok_or_else(|| senseless("OTEL_TRACES_SAMPLER_ARG"))?
        }
    };
    let (share, elsewhere) = match set(variables, "OTEL_TRACES_SAMPLER") {
        None | Some("parentbased_always_on") => (1.0, Elsewhere::Followed),
        Some("always_on") => (1.0, Elsewhere::Shared),
        Some("always_off") => (0.0, Elsewhere::Shared),
        Some("parentbased_always_off") => (0.0, Elsewhere::Followed),
        Some("traceidratio") => (share, Elsewhere::Shared),
        Some("parentbased_traceidratio") => (share, Elsewhere::Followed),
        Some(_) => return Err(senseless("OTEL_TRACES_SAMPLER")),
    };
    Ok(Sampler { share, elsewhere })
}

fn delay(variables: &Variables) -> Result<Duration, Failure> {
    match set(variables, "OTEL_BSP_SCHEDULE_DELAY") {
        None => Ok(TraceExport::USUAL_DELAY),
        Some(text) => match text.parse() {
            Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
            Err(_) => Err(senseless("OTEL_BSP_SCHEDULE_DELAY")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
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
        let read = pairs("Authorization=Basic%20YWE+=, x=a&b,,bad");
        let expected = [("Authorization", "Basic YWE+="), ("x", "a&b")];
        assert_eq!(read, expected.map(|it| (it.0.to_owned(), it.1.to_owned())));
        let told = resource(&variables(&[
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,k=v"),
            ("OTEL_SERVICE_NAME", "b"),
        ]));
        assert_eq!(told[0], ("k".to_owned(), "v".to_owned()));
        assert_eq!(told[1], ("service.name".to_owned(), "b".to_owned()));
        assert_eq!(told[2].0, "service.version");
    }

    #[test]
    fn a_sampler_is_one_of_the_words_that_everybody_uses() {
        let of = |name, share| {
            let pairs = [("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", share)];
            sampler(&variables(&pairs)).ok()
        };
        let quarter = Sampler { share: 0.25, elsewhere: Elsewhere::Followed };
        assert_eq!(of("parentbased_traceidratio", "0.25"), Some(quarter));
        assert_eq!(
            of("always_off", ""),
            Some(Sampler { share: 0.0, elsewhere: Elsewhere::Shared })
        );
        assert_eq!(of("traceidratio", "7"), None);
        assert_eq!(of("sometimes", "1"), None);
    }
}
