//! Our script in the frames of a page: made when it is needed, and gone with the document.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

use crate::actions::page::Page;
use crate::cdp::connection::CdpError;
use crate::cdp::message::SessionId;
use crate::error::{BrowserError, Result};
use crate::page::frames::World;

/// The script.
const SCRIPT: &str = include_str!("../script/page.js");
/// The name of its world.
const WORLD_NAME: &str = "swb";
/// How long a function of the script may take unless it says otherwise.
pub(crate) const SCRIPT_TIMEOUT: Duration = Duration::from_secs(8);

/// An element, by its number and the frame it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ElementRef {
    pub(crate) number: u32,
    pub(crate) frame: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedWorld {
    execution_context_id: i64,
}

/// The result of an evaluation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvaluationResult {
    pub(crate) result: RemoteValue,
    pub(crate) exception_details: Option<ExceptionDetails>,
}

/// A value of a page.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteValue {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) value: Option<Box<RawValue>>,
    pub(crate) unserializable_value: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) object_id: Option<String>,
}

/// An exception in a page.
#[derive(Debug, Deserialize)]
pub(crate) struct ExceptionDetails {
    pub(crate) text: String,
    pub(crate) exception: Option<RemoteValue>,
}

impl ExceptionDetails {
    pub(crate) fn message(&self) -> String {
        let thrown = self.exception.as_ref().and_then(|it| {
            it.description.clone().or_else(|| it.value.as_ref().map(|it| it.get().to_owned()))
        });
        crate::shown_text::cut(&thrown.unwrap_or_else(|| self.text.clone()), 1000)
    }
}

/// A node, as the browser describes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DescribedNode {
    backend_node_id: i64,
    /// The frame in it.
    pub(super) frame_id: Option<String>,
    #[serde(default)]
    shadow_roots: Vec<ShadowRoot>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShadowRoot {
    backend_node_id: i64,
    shadow_root_type: Option<String>,
}

impl ShadowRoot {
    fn is_closed(&self) -> bool {
        self.shadow_root_type.as_deref() == Some("closed")
    }
}

/// What a function of the script returned.
#[derive(Deserialize)]
struct RunResult {
    value: Option<Box<RawValue>>,
    error: Option<String>,
    next: u32,
}

impl Page {
    /// The session of a frame.
    pub(crate) fn session_of(&self, frame: &str) -> Result<SessionId> {
        let session = self.with(|it| it.frames.get(frame).map(|it| it.session.clone()))?;
        session.ok_or_else(|| BrowserError::StaleRef { reference: "the frame".to_owned() })
    }

    /// The world of our script in a frame.
    async fn world(&self, frame: &str) -> Result<(SessionId, World)> {
        let session = self.session_of(frame)?;
        let known = self.with(|it| it.frames.get(frame).and_then(|it| it.world))?;
        if let Some(world) = known {
            return Ok((session, world));
        }
        let params = json!({"frameId": frame, "worldName": WORLD_NAME});
        let method = "Page.createIsolatedWorld";
        let created = self.call_page(&session, method, params, SCRIPT_TIMEOUT).await?;
        let created = created.ok_or_else(|| self.open_dialog_error())?;
        let created: CreatedWorld = decode(method, &created)?;
        let context = created.execution_context_id;
        self.evaluate_in(&session, context, SCRIPT, SCRIPT_TIMEOUT).await?;
        let world = self.with(|tab| {
            let world = World { number: tab.new_world_number(), context };
            if let Some(frame) = tab.frames.get_mut(frame) {
                frame.world = Some(world);
            }
            world
        })?;
        Ok((session, world))
    }

    pub(crate) fn open_dialog_error(&self) -> BrowserError {
        match self.dialog() {
            Some(dialog) => self.dialog_error(&dialog),
            None => BrowserError::Busy(0.0),
        }
    }

    async fn evaluate_in(
        &self,
        session: &SessionId,
        context: i64,
        expression: &str,
        limit: Duration,
    ) -> Result<EvaluationResult> {
        let params = json!({
            "expression": expression,
            "contextId": context,
            "returnByValue": true,
            "awaitPromise": true,
        });
        let method = "Runtime.evaluate";
        let result = self.call_page(session, method, params, limit).await?;
        decode(method, &result.ok_or_else(|| self.open_dialog_error())?)
    }

    /// Calls a function of the script in a frame. `values` is the list of its arguments.
    pub(crate) async fn run<T: DeserializeOwned>(
        &self,
        frame: &str,
        function: &'static str,
        values: &Json,
    ) -> Result<T> {
        self.run_within(frame, function, values, SCRIPT_TIMEOUT).await
    }

    /// The same, with a limit of its own.
    pub(crate) async fn run_within<T: DeserializeOwned>(
        &self,
        frame: &str,
        function: &'static str,
        values: &Json,
        limit: Duration,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (session, world) = match self.world(frame).await {
                Ok(found) => found,
                Err(BrowserError::Cdp(CdpError::Refused { .. })) if attempts < 3 => continue,
                Err(error) => return Err(error),
            };
            let start = self.with(|it| it.next_ref)?;
            let call = format!("__swb.run({start},{function:?},...{values})");
            match self.evaluate_in(&session, world.context, &call, limit).await {
                Ok(evaluated) => return self.finish_run(world, function, evaluated),
                // The document was replaced meanwhile.
                Err(BrowserError::Cdp(CdpError::Refused { .. })) if attempts < 3 => {
                    self.with(|it| it.frames.forget_worlds(&session, Some(world.context)))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn finish_run<T: DeserializeOwned>(
        &self,
        world: World,
        method: &'static str,
        evaluated: EvaluationResult,
    ) -> Result<T> {
        if let Some(exception) = evaluated.exception_details {
            return Err(BrowserError::Script(exception.message()));
        }
        let value = evaluated.result.value.ok_or(CdpError::Unreadable { method })?;
        let result: RunResult = decode(method, &value)?;
        self.with(|it| it.record_refs(world.number, result.next))?;
        if let Some(error) = result.error {
            return Err(BrowserError::Script(crate::shown_text::cut(&error, 500)));
        }
        match result.value {
            Some(value) => decode(method, &value),
            None => {
                serde_json::from_str("null").map_err(|_| CdpError::Unreadable { method }.into())
            }
        }
    }

    /// The element that a reference names.
    pub(crate) fn element(&self, reference: &str) -> Result<ElementRef> {
        let text = reference.trim().trim_start_matches(['[', '@', '#']).trim_end_matches(']');
        let digits = text.strip_prefix(['e', 'E']).unwrap_or(text);
        let number: u32 = digits
            .parse()
            .map_err(|_| BrowserError::NoRef(crate::shown_text::shown(reference, 40)))?;
        let stale = || BrowserError::StaleRef { reference: format!("e{number}") };
        let frame = self.with(|tab| {
            let world = tab.world_of_ref(number)?;
            tab.frames.of_world(world).map(|(id, _)| id.to_owned())
        })?;
        Ok(ElementRef { number, frame: frame.ok_or_else(stale)? })
    }

    /// The browser's handle of an element.
    pub(crate) async fn object_of(&self, element: &ElementRef) -> Result<(SessionId, String)> {
        let (session, world) = self.world(&element.frame).await?;
        let params = json!({
            "expression": format!("__swb.element({})", element.number),
            "contextId": world.context,
        });
        let method = "Runtime.evaluate";
        let result = self.call_page(&session, method, params, SCRIPT_TIMEOUT).await?;
        let result = result.ok_or_else(|| self.open_dialog_error())?;
        let evaluated: EvaluationResult = decode(method, &result)?;
        let gone = || BrowserError::StaleRef { reference: format!("e{}", element.number) };
        Ok((session, evaluated.result.object_id.ok_or_else(gone)?))
    }

    /// The browser's description of an element.
    pub(super) async fn describe_node(
        &self,
        element: &ElementRef,
    ) -> Result<(SessionId, DescribedNode)> {
        #[derive(Deserialize)]
        struct NodeDescription {
            node: DescribedNode,
        }
        let (session, object) = self.object_of(element).await?;
        let params = json!({"objectId": object, "depth": 1, "pierce": true});
        let method = "DOM.describeNode";
        let description: NodeDescription =
            self.browser.cdp.get(Some(&session), method, params).await?;
        Ok((session, description.node))
    }

    /// The handle of a node in a world.
    async fn resolve_node(&self, session: &SessionId, params: Json) -> Result<Option<String>> {
        #[derive(Deserialize)]
        struct NodeObject {
            object: RemoteValue,
        }
        let method = "DOM.resolveNode";
        let found: NodeObject = self.browser.cdp.get(Some(session), method, params).await?;
        Ok(found.object.object_id)
    }

    /// The handle of an element in the world of the page's own scripts.
    pub(crate) async fn main_world_object(
        &self,
        element: &ElementRef,
    ) -> Result<(SessionId, String)> {
        let (session, node) = self.describe_node(element).await?;
        let params = json!({"backendNodeId": node.backend_node_id});
        let object = self.resolve_node(&session, params).await?;
        let gone = || BrowserError::StaleRef { reference: format!("e{}", element.number) };
        Ok((session, object.ok_or_else(gone)?))
    }

    /// Calls a function of the script in a frame, with a node of its document as the first argument.
    pub(super) async fn run_on_node<T: DeserializeOwned>(
        &self,
        frame: &str,
        node: i64,
        function: &'static str,
        values: &Json,
    ) -> Result<T> {
        let (session, world) = self.world(frame).await?;
        let gone = || BrowserError::StaleRef { reference: "the frame".to_owned() };
        let params = json!({"backendNodeId": node, "executionContextId": world.context});
        let object = self.resolve_node(&session, params).await?.ok_or_else(gone)?;
        let start = self.with(|it| it.next_ref)?;
        let params = json!({
            "objectId": object,
            "functionDeclaration": "function(start, name, values) { return __swb.run(start, name, this, ...values); }",
            "arguments": [{"value": start}, {"value": function}, {"value": values}],
            "returnByValue": true,
            "awaitPromise": true,
        });
        let method = "Runtime.callFunctionOn";
        let result = self.call_page(&session, method, params, SCRIPT_TIMEOUT).await?;
        let evaluated = decode(method, &result.ok_or_else(|| self.open_dialog_error())?)?;
        self.finish_run(world, function, evaluated)
    }

    /// Gives our script a closed shadow root of an element; returns whether it has one.
    pub(crate) async fn adopt_closed_root(&self, element: &ElementRef) -> Result<bool> {
        let (session, node) = self.describe_node(element).await?;
        let (_, world) = self.world(&element.frame).await?;
        let mut closed = node.shadow_roots.into_iter().filter(|it| it.is_closed());
        let Some(root) = closed.next() else { return Ok(false) };
        let params =
            json!({"backendNodeId": root.backend_node_id, "executionContextId": world.context});
        let Some(object) = self.resolve_node(&session, params).await? else { return Ok(false) };
        let params = json!({
            "objectId": object,
            "functionDeclaration": "function(number) { __swb.adoptRoot(number, this); }",
            "arguments": [{"value": element.number}],
        });
        self.call_page(&session, "Runtime.callFunctionOn", params, SCRIPT_TIMEOUT).await?;
        Ok(true)
    }
}

/// Decodes a result of the browser.
pub(crate) fn decode<T: DeserializeOwned>(method: &'static str, raw: &RawValue) -> Result<T> {
    serde_json::from_str(raw.get()).map_err(|_| CdpError::Unreadable { method }.into())
}
