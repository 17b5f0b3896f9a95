//! Answers servers' questions: commands of the person first, then the person. The reason for a no goes to the server
//! as well as to the log.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use switchboard_config::hooks::Hook;
use switchboard_config::source::Origin;
use switchboard_wire::client::Respond;
use switchboard_wire::message::{Payload, RemoteError};
use switchboard_wire::peer::Attend;
use tokio::sync::watch;
use url::Url;

use crate::hook_command::{self, Answered};
use crate::inquiry::{Ask, Inquiry, Reply, Sample, Subject};
use crate::logbook::Logbook;

/// Where a no says why, in the `_meta` of the answer.
pub const REASON: &str = "switchboard/reason";
/// What a server is told when it may not ask the model.
const REFUSED: i64 = -1;

/// Asks a model for a server.
pub trait Model: Send + Sync {
    /// Answers the parameters of `sampling/createMessage` with its result, or says why not.
    fn sample<'a>(&'a self, params: Json) -> Sampling<'a>;
}

/// A model's answer that is being waited for.
pub type Sampling<'a> = Pin<Box<dyn Future<Output = Result<Json, String>> + Send + 'a>>;

/// Who answers, for all servers.
pub(crate) struct Counsel {
    roots: Json,
    asker: Arc<dyn Ask>,
    model: Option<Arc<dyn Model>>,
    hooks: watch::Sender<Arc<[Hook]>>,
    owner: watch::Sender<Option<Arc<dyn Attend>>>,
    folder: PathBuf,
    logbook: Logbook,
}

impl fmt::Debug for Counsel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counsel").field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl Counsel {
    pub(crate) fn new(
        folder: PathBuf,
        asker: Arc<dyn Ask>,
        model: Option<Arc<dyn Model>>,
        logbook: Logbook,
    ) -> Counsel {
        let hooks = watch::Sender::new(Arc::from([]));
        let owner = watch::Sender::new(None);
        Counsel { roots: roots(&[&folder]), asker, model, hooks, owner, folder, logbook }
    }

    pub(crate) fn set_hooks(&self, hooks: &[Hook]) {
        self.hooks.send_replace(hooks.into());
    }

    pub(crate) fn set_owner(&self, owner: Option<Arc<dyn Attend>>) {
        self.owner.send_replace(owner);
    }

    /// Who answers instead, where somebody has all of this to themselves.
    pub(crate) fn owner(&self) -> Option<Arc<dyn Attend>> {
        self.owner.borrow().clone()
    }

    pub(crate) fn asker(&self) -> &dyn Ask {
        self.asker.as_ref()
    }

    async fn answer(&self, server: &str, method: &str, params: Json) -> Result<Json, RemoteError> {
        match method {
            "roots/list" => Ok(self.roots.clone()),
            "elicitation/create" => Ok(self.elicited(server, params).await),
            "sampling/createMessage" => self.sampled(server, params).await,
            "ping" => Ok(json!({})),
            _ => Err(unknown(method)),
        }
    }

    async fn elicited(&self, server: &str, params: Json) -> Json {
        let reply = match Subject::elicitation(&params) {
            Ok(subject) => self.replied(server, subject, params).await,
            Err(error) => Reply::Decline(error.to_string()),
        };
        let (action, reason) = match reply {
            Reply::Accept(content) if content.is_empty() => return json!({"action": "accept"}),
            Reply::Accept(content) => return json!({"action": "accept", "content": content}),
            Reply::Decline(reason) => ("decline", reason),
            Reply::Cancel(reason) => ("cancel", reason),
        };
        self.logbook.note(server, &format!("its question was not answered ({action}): {reason}"));
        json!({"action": action, "_meta": {REASON: reason}})
    }

    /// What is said to a question. Answers that do not fit the form are none.
    async fn replied(&self, server: &str, subject: Subject, params: Json) -> Reply {
        let inquiry = Inquiry { server: server.to_owned(), subject };
        let reply = match self.by_hook(server, params).await {
            Some(reply) => reply,
            None => self.asker.ask(&inquiry).await,
        };
        match (reply, &inquiry.subject) {
            (Reply::Accept(given), Subject::Form(form)) => match form.complete(&given) {
                Ok(complete) => Reply::Accept(complete),
                Err((field, unfit)) => {
                    Reply::Decline(format!("the answer to `{field}` does not fit: {unfit}"))
                }
            },
            // To go somewhere is all that is asked for.
            (Reply::Accept(_), Subject::Visit(_) | Subject::Sample(_)) => Reply::Accept(Map::new()),
            (reply @ (Reply::Decline(_) | Reply::Cancel(_)), _) => reply,
        }
    }

    /// The first command that has something to say.
    async fn by_hook(&self, server: &str, params: Json) -> Option<Reply> {
        let hooks = self.hooks.borrow().clone();
        for hook in hooks.iter().filter(|hook| hook.is_about(server)) {
            match hook_command::ask(hook, server, &params, &self.folder).await {
                Ok(Answered::Reply(reply)) => return Some(reply),
                Ok(Answered::Nothing) => {}
                Err(error) => {
                    let place = place(&hook.origin);
                    self.logbook.note(server, &format!("the hook{place} failed: {error}"));
                }
            }
        }
        None
    }

    async fn sampled(&self, server: &str, params: Json) -> Result<Json, RemoteError> {
        let refused = |reason: String| {
            self.logbook.note(server, &format!("it may not use the model: {reason}"));
            RemoteError { code: REFUSED, message: reason, data: None }
        };
        let Some(model) = &self.model else { return Err(unknown("sampling/createMessage")) };
        let subject = Subject::Sample(Sample::read(&params));
        let inquiry = Inquiry { server: server.to_owned(), subject };
        match self.asker.ask(&inquiry).await {
            Reply::Accept(_) => model.sample(params).await.map_err(refused),
            Reply::Decline(reason) | Reply::Cancel(reason) => Err(refused(reason)),
        }
    }
}

/// Where a hook stands. Not its text: people write secrets into commands.
fn place(origin: &Origin) -> String {
    match (origin.source.path(), origin.position) {
        (Some(path), Some(position)) => format!(" at {}:{}", path.display(), position.line),
        (Some(path), None) => format!(" in {}", path.display()),
        (None, _) => String::new(),
    }
}

fn unknown(method: &str) -> RemoteError {
    let message = format!("this client does not answer `{method}`");
    RemoteError { code: -32601, message, data: None }
}

fn roots(folders: &[&PathBuf]) -> Json {
    let root = |folder: &&PathBuf| {
        let uri = Url::from_directory_path(folder).ok()?;
        let uri = uri.as_str().trim_end_matches('/').to_owned();
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        Some(json!({"uri": uri, "name": name.unwrap_or_default()}))
    };
    json!({"roots": folders.iter().filter_map(root).collect::<Vec<_>>()})
}

/// Answers one server.
#[derive(Debug, Clone)]
pub(crate) struct Counsellor {
    pub(crate) server: String,
    pub(crate) counsel: Arc<Counsel>,
}

impl Respond for Counsellor {
    fn respond<'a>(
        &'a self,
        method: &'a str,
        params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RemoteError>> + Send + 'a>> {
        Box::pin(async move {
            let params = params.and_then(|it| it.decode().ok()).unwrap_or_default();
            let answer = self.counsel.answer(&self.server, method, params).await?;
            Ok(Payload::from_json(answer.to_string().into()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inquiry::{Asking, Nobody};

    struct Says(Reply);

    impl Ask for Says {
        fn ask<'a>(&'a self, _inquiry: &'a Inquiry) -> Asking<'a> {
            Box::pin(async { self.0.clone() })
        }
    }

    struct Echo;

    impl Model for Echo {
        fn sample<'a>(&'a self, params: Json) -> Sampling<'a> {
            Box::pin(async move { Ok(json!({"role": "assistant", "got": params["maxTokens"]})) })
        }
    }

    fn counsel(asker: impl Ask + 'static, model: Option<Arc<dyn Model>>) -> Counsel {
        let folder = tempfile::tempdir().expect("a temp folder");
        let logbook = Logbook::open(folder.path()).expect("a logbook");
        Counsel::new("/srv/a b".into(), Arc::new(asker), model, logbook)
    }

    fn question() -> Json {
        let guests = json!({"type": "integer", "minimum": 1, "default": 2});
        json!({"message": "How many?", "requestedSchema": {"type": "object",
            "properties": {"guests": guests, "name": {"type": "string"}}, "required": ["name"]}})
    }

    #[tokio::test]
    async fn roots_are_the_folders_and_nobody_is_made_up() {
        let counsel = counsel(Nobody::default(), None);
        assert_eq!(
            counsel.answer("s", "roots/list", Json::Null).await,
            Ok(json!({"roots": [{"uri": "file:///srv/a%20b", "name": "a b"}]}))
        );
        let declined = counsel.answer("s", "elicitation/create", question()).await;
        assert_eq!(
            declined,
            Ok(json!({"action": "decline", "_meta": {REASON: "nobody is here to answer"}}))
        );
        let sampled = counsel.answer("s", "sampling/createMessage", Json::Null).await;
        assert_eq!(sampled.map_err(|it| it.code), Err(-32601));
    }

    #[tokio::test]
    async fn answers_are_completed_with_defaults_and_those_that_do_not_fit_are_declined() {
        let given = |json: Json| json.as_object().cloned().unwrap_or_default();
        let good = counsel(Says(Reply::Accept(given(json!({"name": "Ada", "more": 1})))), None);
        assert_eq!(
            good.answer("s", "elicitation/create", question()).await,
            Ok(json!({"action": "accept", "content": {"guests": 2, "name": "Ada"}}))
        );
        let bad = counsel(Says(Reply::Accept(given(json!({"name": "Ada", "guests": 0})))), None);
        let declined = bad.answer("s", "elicitation/create", question()).await.expect("answered");
        assert_eq!(declined["action"], "decline");
        let reason = declined["_meta"][REASON].as_str().unwrap_or_default();
        assert!(reason.contains("`guests`") && reason.contains("at least 1"), "{reason}");
    }

    #[tokio::test]
    async fn a_model_is_asked_only_where_somebody_says_yes() {
        let params = json!({"messages": [], "maxTokens": 7});
        let yes = counsel(Says(Reply::Accept(Map::new())), Some(Arc::new(Echo)));
        let answer = yes.answer("s", "sampling/createMessage", params.clone()).await;
        assert_eq!(answer, Ok(json!({"role": "assistant", "got": 7})));
        let no = counsel(Says(Reply::Decline("not now".to_owned())), Some(Arc::new(Echo)));
        let refused = no.answer("s", "sampling/createMessage", params).await;
        assert_eq!(refused.map_err(|it| it.message), Err("not now".to_owned()));
    }
}
