//! Answers the requests of servers: roots, elicitations (hooks first, then the user) and sampling.
//! The reason of a refusal goes to the server and to the log.

use std::fmt;
use std::future::Future;
use std::mem;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use switchboard_config::settings::hooks::ElicitationHook;
use switchboard_config::source::Origin;
use switchboard_wire::client::RequestHandler;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::peer::CallOwner;
use switchboard_wire::shared::Shared;
use tracing::{info, warn};
use url::Url;

use crate::elicitation::elicitor::{
    ElicitResult, Elicitation, ElicitationKind, Elicitor, SamplingRequest,
};
use crate::elicitation::hook;
use crate::elicitation::hook::HookAnswer;
use crate::storage::stderr_log::StderrLog;

/// The member of `_meta` with the reason of a refusal.
pub const REASON_META_KEY: &str = "switchboard/reason";
/// The error code of a refused sampling request.
const USER_REJECTED: i64 = -1;

/// Runs the sampling requests of servers.
pub trait SamplingModel: Send + Sync {
    /// The result of `sampling/createMessage` with these parameters, or the reason of a refusal.
    fn create_message<'a>(&'a self, params: Json) -> SamplingFuture<'a>;
}

/// Resolves to the result of a sampling request.
pub type SamplingFuture<'a> = Pin<Box<dyn Future<Output = Result<Json, String>> + Send + 'a>>;

/// The client features that the host offers to servers: roots, elicitation and sampling.
pub(crate) struct ClientFeatures {
    roots: Json,
    elicitor: Arc<dyn Elicitor>,
    model: Option<Arc<dyn SamplingModel>>,
    /// Shared state: the engine and the gateway replace it while connections read it for every server request.
    handlers: Shared<RequestHandlers>,
    folder: PathBuf,
    stderr_log: StderrLog,
}

/// The handlers that come before the elicitor and can change while connections are open.
#[derive(Default)]
struct RequestHandlers {
    hooks: Arc<[ElicitationHook]>,
    default_handler: Option<Arc<dyn CallOwner>>,
}

impl fmt::Debug for ClientFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFeatures").field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl ClientFeatures {
    pub(crate) fn new(
        (folder, roots): (PathBuf, &[PathBuf]),
        elicitor: Arc<dyn Elicitor>,
        model: Option<Arc<dyn SamplingModel>>,
        stderr_log: StderrLog,
    ) -> ClientFeatures {
        ClientFeatures {
            roots: roots_result(roots),
            elicitor,
            model,
            handlers: Shared::default(),
            folder,
            stderr_log,
        }
    }

    pub(crate) fn set_hooks(&self, hooks: &[ElicitationHook]) {
        let hooks: Arc<[ElicitationHook]> = hooks.into();
        drop(self.handlers.update(|handlers| mem::replace(&mut handlers.hooks, hooks)));
    }

    pub(crate) fn set_default_handler(&self, default_handler: Option<Arc<dyn CallOwner>>) {
        // The replaced handler is dropped outside the closure: its drop may run code of its own.
        drop(self.handlers.update(|it| mem::replace(&mut it.default_handler, default_handler)));
    }

    /// Replaces the default handler if the host serves a single client.
    pub(crate) fn default_handler(&self) -> Option<Arc<dyn CallOwner>> {
        self.handlers.read(|handlers| handlers.default_handler.clone())
    }

    /// The result of `roots/list` for a client that has no roots of its own; `None` if there are no roots.
    pub(crate) fn roots(&self) -> Option<Json> {
        let has_roots = self.roots["roots"].as_array().is_some_and(|it| !it.is_empty());
        has_roots.then(|| self.roots.clone())
    }

    pub(crate) fn elicitor(&self) -> &dyn Elicitor {
        self.elicitor.as_ref()
    }

    async fn respond(&self, server: &str, method: &str, params: Json) -> Result<Json, RpcError> {
        match method {
            "roots/list" => Ok(self.roots.clone()),
            "elicitation/create" => Ok(self.elicit(server, params).await),
            "sampling/createMessage" => self.create_message(server, params).await,
            "ping" => Ok(json!({})),
            _ => Err(method_not_found(method)),
        }
    }

    async fn elicit(&self, server: &str, params: Json) -> Json {
        let parsed = ElicitationKind::parse(&params);
        let kind = parsed.as_ref().map_or("invalid", ElicitationKind::id);
        info!(server, kind, "elicitation requested");
        let reply = match parsed {
            Ok(kind) => self.answer_elicitation(server, kind, params).await,
            Err(error) => ElicitResult::Decline(error.to_string()),
        };
        info!(server, kind, action = reply.action(), "elicitation answered");
        self.elicit_result(server, reply)
    }

    /// Do hooks get the elicitations of this server?
    pub(crate) fn has_hooks(&self, server: &str) -> bool {
        self.handlers.read(|handlers| handlers.hooks.iter().any(|it| it.matches_server(server)))
    }

    /// The result of an elicitation that a hook answers; `None` where no hook does, or the parameters are not valid.
    pub(crate) async fn hook_result(&self, server: &str, params: Json) -> Option<Json> {
        let kind = ElicitationKind::parse(&params).ok()?;
        let reply = complete(self.ask_hooks(server, params).await?, &kind);
        info!(server, kind = kind.id(), action = reply.action(), "elicitation answered by a hook");
        Some(self.elicit_result(server, reply))
    }

    /// The result for the server. Refusals are noted.
    fn elicit_result(&self, server: &str, reply: ElicitResult) -> Json {
        let (action, reason) = match reply {
            ElicitResult::Accept(content) if content.is_empty() => {
                return json!({"action": "accept"});
            }
            ElicitResult::Accept(content) => return json!({"action": "accept", "content": content}),
            ElicitResult::Decline(reason) => ("decline", reason),
            ElicitResult::Cancel(reason) => ("cancel", reason),
        };
        self.stderr_log
            .note(server, &format!("its elicitation was not accepted ({action}): {reason}"));
        json!({"action": action, "_meta": {REASON_META_KEY: reason}})
    }

    /// The reply to an elicitation. Answers that do not fit the form are declined.
    async fn answer_elicitation(
        &self,
        server: &str,
        kind: ElicitationKind,
        params: Json,
    ) -> ElicitResult {
        let elicitation = Elicitation { server: server.to_owned(), kind };
        let reply = match self.ask_hooks(server, params).await {
            Some(reply) => reply,
            None => self.elicitor.elicit(&elicitation).await,
        };
        complete(reply, &elicitation.kind)
    }

    /// The reply of the first hook that gives one.
    async fn ask_hooks(&self, server: &str, params: Json) -> Option<ElicitResult> {
        let hooks = self.handlers.read(|handlers| handlers.hooks.clone());
        for hook in hooks.iter().filter(|hook| hook.matches_server(server)) {
            match hook::run(hook, server, &params, &self.folder).await {
                Ok(HookAnswer::Reply(reply)) => return Some(reply),
                Ok(HookAnswer::NoOpinion) => {}
                Err(error) => {
                    let place = origin_text(&hook.origin);
                    self.stderr_log.note(server, &format!("the hook{place} failed: {error}"));
                    warn!(server, "the elicitation hook{place} failed");
                }
            }
        }
        None
    }

    async fn create_message(&self, server: &str, params: Json) -> Result<Json, RpcError> {
        let refused = |reason: String| {
            self.stderr_log.note(server, &format!("its sampling request was refused: {reason}"));
            info!(server, "sampling request refused");
            RpcError { code: USER_REJECTED, message: reason, data: None }
        };
        let Some(model) = &self.model else {
            return Err(method_not_found("sampling/createMessage"));
        };
        let kind = ElicitationKind::Sampling(SamplingRequest::parse(&params));
        let elicitation = Elicitation { server: server.to_owned(), kind };
        match self.elicitor.elicit(&elicitation).await {
            ElicitResult::Accept(_) => {
                info!(server, "sampling request accepted");
                model.create_message(params).await.map_err(refused)
            }
            ElicitResult::Decline(reason) | ElicitResult::Cancel(reason) => Err(refused(reason)),
        }
    }
}

/// Completes an answer with the defaults of its form. An answer that does not fit is a decline.
fn complete(reply: ElicitResult, kind: &ElicitationKind) -> ElicitResult {
    match (reply, kind) {
        (ElicitResult::Accept(given), ElicitationKind::Form(form)) => match form.complete(&given) {
            Ok(complete) => ElicitResult::Accept(complete),
            Err((field, invalid)) => {
                ElicitResult::Decline(format!("the answer to `{field}` does not fit: {invalid}"))
            }
        },
        // Only a form has content.
        (ElicitResult::Accept(_), ElicitationKind::Url(_) | ElicitationKind::Sampling(_)) => {
            ElicitResult::Accept(Map::new())
        }
        (reply @ (ElicitResult::Decline(_) | ElicitResult::Cancel(_)), _) => reply,
    }
}

/// The place of a hook. Its command is left out, because it may contain secrets.
fn origin_text(origin: &Origin) -> String {
    match (origin.source.path(), origin.position) {
        (Some(path), Some(position)) => format!(" at {}:{}", path.display(), position.line),
        (Some(path), None) => format!(" in {}", path.display()),
        (None, _) => String::new(),
    }
}

fn method_not_found(method: &str) -> RpcError {
    let message = format!("this client does not answer `{method}`");
    RpcError { code: -32601, message, data: None }
}

fn roots_result(folders: &[PathBuf]) -> Json {
    const FILE_SYSTEM_ROOT: &str = "file:///";
    let root = |folder: &PathBuf| {
        let uri = Url::from_directory_path(folder).ok()?;
        let uri = match uri.as_str() {
            FILE_SYSTEM_ROOT => FILE_SYSTEM_ROOT,
            folder => folder.strip_suffix('/').unwrap_or(folder),
        };
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        Some(json!({"uri": uri, "name": name.unwrap_or_default()}))
    };
    json!({"roots": folders.iter().filter_map(root).collect::<Vec<_>>()})
}

/// Answers the requests of one server.
#[derive(Debug, Clone)]
pub(crate) struct ServerResponder {
    pub(crate) server: String,
    pub(crate) features: Arc<ClientFeatures>,
}

impl RequestHandler for ServerResponder {
    fn respond<'a>(
        &'a self,
        method: &'a str,
        params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>> {
        Box::pin(async move {
            let params = params.and_then(|it| it.decode().ok()).unwrap_or_default();
            let result = self.features.respond(&self.server, method, params).await?;
            Ok(Payload::from_json(result.to_string().into()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elicitation::elicitor::{DeclineAll, ElicitFuture};

    struct ScriptedElicitor(ElicitResult);

    impl Elicitor for ScriptedElicitor {
        fn elicit<'a>(&'a self, _elicitation: &'a Elicitation) -> ElicitFuture<'a> {
            Box::pin(async { self.0.clone() })
        }
    }

    struct EchoModel;

    impl SamplingModel for EchoModel {
        fn create_message<'a>(&'a self, params: Json) -> SamplingFuture<'a> {
            Box::pin(async move { Ok(json!({"role": "assistant", "got": params["maxTokens"]})) })
        }
    }

    fn features(
        elicitor: impl Elicitor + 'static,
        model: Option<Arc<dyn SamplingModel>>,
    ) -> ClientFeatures {
        let folder = tempfile::tempdir().expect("a temp folder");
        let stderr_log = StderrLog::open(folder.path()).expect("a log");
        let folder = PathBuf::from("/srv/a b");
        ClientFeatures::new((folder.clone(), &[folder]), Arc::new(elicitor), model, stderr_log)
    }

    fn form_params() -> Json {
        let guests = json!({"type": "integer", "minimum": 1, "default": 2});
        json!({"message": "How many?", "requestedSchema": {"type": "object",
            "properties": {"guests": guests, "name": {"type": "string"}}, "required": ["name"]}})
    }

    #[tokio::test]
    async fn roots_are_the_folders_and_elicitations_are_declined_without_a_user() {
        let features = features(DeclineAll::default(), None);
        assert_eq!(
            features.respond("s", "roots/list", Json::Null).await,
            Ok(json!({"roots": [{"uri": "file:///srv/a%20b", "name": "a b"}]}))
        );
        let declined = features.respond("s", "elicitation/create", form_params()).await;
        assert_eq!(
            declined,
            Ok(
                json!({"action": "decline", "_meta": {REASON_META_KEY: "no user is present to answer"}})
            )
        );
        let sampled = features.respond("s", "sampling/createMessage", Json::Null).await;
        assert_eq!(sampled.map_err(|it| it.code), Err(-32601));
    }

    #[test]
    fn the_root_of_the_file_system_and_names_with_spaces_are_valid_uris() {
        let folders = ["/", "/srv/a b", "/srv/50%", "relative"].map(PathBuf::from);
        let roots = roots_result(&folders);
        let uris: Vec<_> =
            roots["roots"].as_array().into_iter().flatten().map(|it| &it["uri"]).collect();
        assert_eq!(uris, ["file:///", "file:///srv/a%20b", "file:///srv/50%25"]);
    }

    #[tokio::test]
    async fn answers_are_completed_with_defaults_and_those_that_do_not_fit_are_declined() {
        let given = |json: Json| json.as_object().cloned().unwrap_or_default();
        let good = features(
            ScriptedElicitor(ElicitResult::Accept(given(json!({"name": "Ada", "more": 1})))),
            None,
        );
        assert_eq!(
            good.respond("s", "elicitation/create", form_params()).await,
            Ok(json!({"action": "accept", "content": {"guests": 2, "name": "Ada"}}))
        );
        let bad = features(
            ScriptedElicitor(ElicitResult::Accept(given(json!({"name": "Ada", "guests": 0})))),
            None,
        );
        let declined =
            bad.respond("s", "elicitation/create", form_params()).await.expect("answered");
        assert_eq!(declined["action"], "decline");
        let reason = declined["_meta"][REASON_META_KEY].as_str().unwrap_or_default();
        assert!(reason.contains("`guests`") && reason.contains("at least 1"), "{reason}");
    }

    #[tokio::test]
    async fn sampling_needs_the_users_consent() {
        let params = json!({"messages": [], "maxTokens": 7});
        let yes =
            features(ScriptedElicitor(ElicitResult::Accept(Map::new())), Some(Arc::new(EchoModel)));
        let answer = yes.respond("s", "sampling/createMessage", params.clone()).await;
        assert_eq!(answer, Ok(json!({"role": "assistant", "got": 7})));
        let no = features(
            ScriptedElicitor(ElicitResult::Decline("not now".to_owned())),
            Some(Arc::new(EchoModel)),
        );
        let refused = no.respond("s", "sampling/createMessage", params).await;
        assert_eq!(refused.map_err(|it| it.message), Err("not now".to_owned()));
    }
}
