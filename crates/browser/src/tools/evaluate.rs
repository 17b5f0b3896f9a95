//! The tool that runs scripts.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard_builtin::kit::HandlerError;

use crate::actions::world::{EvaluationResult, RemoteValue, decode};
use crate::error::BrowserError;
use crate::shown_text::{cut, marked};
use crate::tools::inspect::{MAX_ANSWER, nonce};
use crate::tools::registry::{Answer, CallScope, Registry};

/// How long a script may run unless a call says otherwise.
const SCRIPT_SECONDS: f64 = 10.0;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EvaluateArguments {
    /// An expression; with ref, a function of the element.
    script: String,
    #[serde(rename = "ref")]
    reference: Option<String>,
    timeout: Option<f64>,
    tab: Option<u32>,
}

/// Adds the tool for scripts.
pub(super) fn add(registry: &mut Registry) {
    registry.add(
        "evaluate",
        "Runs JavaScript in the page and returns its value. Needs the user's permission.",
        |it| it.destructive().open_world(),
        evaluate,
    );
}

async fn evaluate(
    scope: CallScope,
    it: EvaluateArguments,
) -> std::result::Result<Answer, HandlerError> {
    let seconds = it.timeout.unwrap_or(SCRIPT_SECONDS);
    if !(0.1..=60.0).contains(&seconds) {
        let expected = "from 0.1 to 60".to_owned();
        return Err(BrowserError::Argument { name: "timeout", expected }.into());
    }
    let turn = scope.session.turn(it.tab).await?;
    let page = &turn.page;
    page.check_usable()?;
    let mark = page.mark()?;
    let limit = Duration::from_secs_f64(seconds);
    let (method, session, params) = match &it.reference {
        None => {
            let params = json!({
                "expression": it.script, "returnByValue": true, "awaitPromise": true, "userGesture": true, "replMode": true,
            });
            ("Runtime.evaluate", page.session.clone(), params)
        }
        Some(reference) => {
            let (session, object) = page.main_world_object(&page.element(reference)?).await?;
            let params = json!({
                "objectId": object,
                "functionDeclaration": format!("function() {{ const f = ({}); return typeof f === 'function' ? f.call(this, this) : f; }}", it.script),
                "returnByValue": true, "awaitPromise": true, "userGesture": true,
            });
            ("Runtime.callFunctionOn", session, params)
        }
    };
    let result = match page.call_page(&session, method, params, limit).await {
        Ok(Some(result)) => decode::<EvaluationResult>(method, &result)?,
        Ok(None) => return Ok(page.report("the script waits for a dialog", &mark).into()),
        Err(BrowserError::Busy(_)) => {
            page.browser.cdp.post(Some(&session), "Runtime.terminateExecution", json!({}));
            let text = format!("the script did not end within {seconds} s and was stopped");
            return Err(HandlerError::failed(text));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(exception) = result.exception_details {
        let url = page.with(|it| it.url.clone()).unwrap_or_default();
        let message = marked(&url, &cut(&exception.message(), 800), &nonce());
        return Err(HandlerError::failed(format!("the script failed:\n{message}")));
    }
    page.settle(&mark).await;
    let value = written(&result.result);
    let url = page.with(|it| it.url.clone()).unwrap_or_default();
    let mut text = marked(&url, &cut(&value, MAX_ANSWER), &nonce());
    let happened = page.happened(&mark);
    if !happened.is_empty() {
        text += &format!("\n{}", cut(&happened.join("; "), 400));
    }
    Ok(text.into())
}

/// A value as JSON.
fn written(value: &RemoteValue) -> String {
    match (&value.value, &value.unserializable_value, &value.description) {
        // The browser escapes what is not ASCII.
        (Some(value), ..) => serde_json::from_str::<Json>(value.get())
            .map_or_else(|_| value.get().to_owned(), |it| it.to_string()),
        (None, Some(text), _) | (None, None, Some(text)) => text.clone(),
        (None, None, None) => value.kind.clone(),
    }
}
