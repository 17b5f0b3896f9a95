//! Stands in for the person: says yes to every form with what it proposes, and opens every page without a screen.
//! It stands in for the model, too, which always says the same.

use std::error::Error;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{HOST, LOCATION};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value as Json, json};
use switchboard::auth::escort::{Guide, Pasting};
use switchboard::auth::flow::Instructions;
use switchboard::auth::runner::NobodyThere;
use switchboard::counsel::{Model, Sampling};
use switchboard::form::{Field, Form, Format, Kind, Need};
use switchboard::inquiry::{Ask, Asking, Inquiry, Reply, Subject};
use tokio::net::TcpStream;
use url::Url;

/// Somebody who agrees with everything.
#[derive(Debug)]
pub struct WillingPerson;

impl Ask for WillingPerson {
    fn ask<'a>(&'a self, inquiry: &'a Inquiry) -> Asking<'a> {
        Box::pin(async move {
            match &inquiry.subject {
                Subject::Form(form) => Reply::Accept(filled_in(form)),
                Subject::Visit(visit) => match open(&visit.url).await {
                    Ok(_) => Reply::Accept(Map::new()),
                    Err(error) => Reply::Decline(error.to_string()),
                },
                Subject::Sample(_) => Reply::Accept(Map::new()),
            }
        })
    }
}

impl Guide for WillingPerson {
    fn visit<'a>(&'a self, url: &'a Url) -> Pasting<'a> {
        Box::pin(async move {
            // What it leads to is our own listener, where the host waits for it.
            if let Ok(Some(back)) = open(url).await {
                let _whatever_it_says = open(&back).await;
            }
            std::future::pending().await
        })
    }

    fn show(&self, _: &Instructions) -> Result<(), NobodyThere> {
        Err(NobodyThere)
    }
}

impl Model for WillingPerson {
    fn sample<'a>(&'a self, _: Json) -> Sampling<'a> {
        let content = json!({"type": "text", "text": "sample"});
        let said = json!({"role": "assistant", "content": content, "model": "none"});
        Box::pin(std::future::ready(Ok(said)))
    }
}

/// Opens a page the way a browser does that nobody looks at, and says where it leads, where it leads on.
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

/// The host puts in what a form proposes; only what is required and has no default is left to us.
fn filled_in(form: &Form) -> Map<String, Json> {
    let open = form.fields.iter().filter(|it| it.need == Need::Required && it.default.is_none());
    open.map(|field| (field.name.clone(), sample(field))).collect()
}

fn sample(field: &Field) -> Json {
    match &field.kind {
        Kind::Text { shortest, format, .. } => match format {
            Some(Format::Email) => json!("somebody@example.com"),
            Some(Format::Uri) => json!("https://example.com/"),
            Some(Format::Date) => json!("2027-01-31"),
            Some(Format::DateTime) => json!("2027-01-31T12:00:00Z"),
            None => json!("sample".repeat(shortest.unwrap_or(0) / "sample".len() + 1)),
        },
        Kind::Number { least, most, .. } => json!(least.or(*most).unwrap_or(1.0).trunc()),
        Kind::Truth => json!(true),
        Kind::One(choices) => json!(choices.first().map(|it| &it.value)),
        Kind::Some { choices, least, .. } => {
            let values = choices.iter().take(least.unwrap_or(1)).map(|it| &it.value);
            json!(values.collect::<Vec<_>>())
        }
    }
}
