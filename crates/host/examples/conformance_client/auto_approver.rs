//! Stands in for the user: accepts every form with its defaults and opens every URL without a screen. Stands in for
//! the model too, with a fixed response.

use std::error::Error;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{HOST, LOCATION};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value as Json, json};
use switchboard::auth::browser::browser_flow::{LoginPrompt, PastedTextFuture};
use switchboard::auth::flow::DeviceAuthorization;
use switchboard::auth::flow::runner::UserUnavailable;
use switchboard::connection::{SamplingFuture, SamplingModel};
use switchboard::elicitation::{
    ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor, FieldKind,
    FieldRequirement, Form, FormField, TextFormat,
};
use tokio::net::TcpStream;
use url::Url;

/// Accepts everything.
#[derive(Debug)]
pub struct AutoApprover;

impl Elicitor for AutoApprover {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        Box::pin(async move {
            match &elicitation.kind {
                ElicitationKind::Form(form) => ElicitResult::Accept(filled_in(form)),
                ElicitationKind::Url(request) => match open(&request.url).await {
                    Ok(_) => ElicitResult::Accept(Map::new()),
                    Err(error) => ElicitResult::Decline(error.to_string()),
                },
                ElicitationKind::Sampling(_) => ElicitResult::Accept(Map::new()),
            }
        })
    }
}

impl LoginPrompt for AutoApprover {
    fn open_url<'a>(&'a self, url: &'a Url) -> PastedTextFuture<'a> {
        Box::pin(async move {
            // The URL redirects to the host's callback listener.
            if let Ok(Some(callback)) = open(url).await {
                let _any_response = open(&callback).await;
            }
            std::future::pending().await
        })
    }

    fn show_device_code(&self, _: &DeviceAuthorization) -> Result<(), UserUnavailable> {
        Err(UserUnavailable)
    }
}

impl SamplingModel for AutoApprover {
    fn create_message<'a>(&'a self, _: Json) -> SamplingFuture<'a> {
        let content = json!({"type": "text", "text": "sample"});
        let message = json!({"role": "assistant", "content": content, "model": "none"});
        Box::pin(std::future::ready(Ok(message)))
    }
}

/// Opens a URL like a headless browser and returns the redirect target, if there is one.
pub async fn open(url: &Url) -> Result<Option<Url>, Box<dyn Error + Send + Sync>> {
    let address = url.socket_addrs(|| None)?;
    let stream = TcpStream::connect(&address[..]).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let mut target = url.path().to_owned();
    if let Some(query) = url.query() {
        target = format!("{target}?{query}");
    }
    let request = hyper::Request::get(target).header(HOST, url.authority());
    let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    driver.abort();
    let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
    Ok(location.map(|it| url.join(it)).transpose()?)
}

/// Values for required fields without a default; the host fills in the defaults.
fn filled_in(form: &Form) -> Map<String, Json> {
    let open = form
        .fields
        .iter()
        .filter(|it| it.requirement == FieldRequirement::Required && it.default.is_none());
    open.map(|field| (field.name.clone(), sample(field))).collect()
}

fn sample(field: &FormField) -> Json {
    match &field.kind {
        FieldKind::Text { min_length: shortest, format, .. } => match format {
            Some(TextFormat::Email) => json!("user@example.com"),
            Some(TextFormat::Uri) => json!("https://example.com/"),
            Some(TextFormat::Date) => json!("2027-01-31"),
            Some(TextFormat::DateTime) => json!("2027-01-31T12:00:00Z"),
            None => json!("sample".repeat(shortest.unwrap_or(0) / "sample".len() + 1)),
        },
        FieldKind::Number { least, most, .. } => json!(least.or(*most).unwrap_or(1.0).trunc()),
        FieldKind::Boolean => json!(true),
        FieldKind::SingleSelect(choices) => json!(choices.first().map(|it| &it.value)),
        FieldKind::MultiSelect { choices, least, .. } => {
            let values = choices.iter().take(least.unwrap_or(1)).map(|it| &it.value);
            json!(values.collect::<Vec<_>>())
        }
    }
}
