//! A client of one era, and a person behind it who always gives the same answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_builtin::server::Server;
use switchboard_wire::client::{Client, Request, Respond};
use switchboard_wire::era::Era;
use switchboard_wire::handshake::{self, Hint};
use switchboard_wire::introduction::{Ability, Offer};
use switchboard_wire::memory::{self, MemoryLink};
use switchboard_wire::message::{Payload, RemoteError};
use switchboard_wire::peer::{CallError, Connection, Event, Peer};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub const BOTH: [Era; 2] = [Era::Legacy, Era::Modern];

/// Nothing here takes this long unless it is broken.
pub const SOON: Duration = Duration::from_secs(10);

/// A client that talks to a server.
pub struct Visitor {
    pub client: Client,
    /// What the server said that nobody asked for: method and parameters.
    pub heard: mpsc::Receiver<(String, Json)>,
    answer: Json,
    serving: JoinHandle<()>,
    hearing: JoinHandle<()>,
    task: JoinHandle<switchboard_wire::peer::Statistics>,
}

struct Person(Json);

impl Respond for Person {
    fn respond<'a>(
        &'a self,
        method: &'a str,
        params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RemoteError>> + Send + 'a>> {
        assert!(["elicitation/create", "roots/list"].contains(&method), "{method}");
        let params: Json = params.map(|it| it.decode().expect("JSON")).unwrap_or_default();
        let mut answer = self.0.clone();
        // What was asked is part of the answer, so that a test can see it.
        if answer["content"] == "asked" {
            answer["content"] = params;
        }
        Box::pin(async move { Ok(Payload::from_json(answer.to_string().into())) })
    }
}

impl Visitor {
    /// Somebody who can be asked and declines.
    pub async fn new(server: &Arc<Server>, era: Era) -> Visitor {
        Visitor::who(server, era, vec![Ability::Elicitation], json!({"action": "decline"})).await
    }

    /// Somebody who can do these things and answers so.
    pub async fn who(
        server: &Arc<Server>,
        era: Era,
        abilities: Vec<Ability>,
        answer: Json,
    ) -> Visitor {
        let (ours, theirs) = memory::pair();
        let serving = tokio::spawn(server.clone().serve(theirs));
        Visitor::over(ours, serving, era, abilities, answer).await
    }

    /// The same over a link to a server that runs already.
    pub async fn over(
        ours: MemoryLink,
        serving: JoinHandle<()>,
        era: Era,
        abilities: Vec<Ability>,
        answer: Json,
    ) -> Visitor {
        let Connection { peer, mut events, task } = Peer::start(ours);
        let (tell, heard) = mpsc::channel(1000);
        let person = Person(answer.clone());
        let hearing = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    Event::Request(request) => {
                        let answer = person.respond(&request.method, request.params.clone()).await;
                        request.answer(answer.expect("an answer")).await;
                    }
                    Event::Notification { method, params } => {
                        let params = params.map(|it| it.decode().expect("JSON"));
                        let _test_over =
                            tell.try_send((method.into_owned(), params.unwrap_or_default()));
                    }
                }
            }
        });
        let offer = Offer {
            name: "visitor".to_owned(),
            title: "Visitor".to_owned(),
            version: "1".to_owned(),
            abilities,
        };
        let hint = match era {
            Era::Legacy => Hint::Legacy,
            Era::Modern => Hint::Unknown,
        };
        let client = handshake::open(&peer, &offer, hint).await.expect("it opens");
        assert_eq!(client.introduction().era, era);
        Visitor { client, heard, answer, serving, hearing, task }
    }

    pub fn request(&self, method: &'static str, params: Json) -> Request {
        self.client
            .request(method)
            .params(Payload::from_json(params.to_string().into()))
            .answered_by(Arc::new(Person(self.answer.clone())))
            .within(SOON)
    }

    /// An answer without what only its era puts there.
    pub async fn ask(&self, method: &'static str, params: Json) -> Result<Json, RemoteError> {
        match self.request(method, params).send().await {
            Ok(answer) => {
                let mut answer: Json = answer.decode().expect("JSON");
                if let Some(members) = answer.as_object_mut() {
                    let marks = ["_meta", "resultType", "ttlMs", "cacheScope"];
                    members.retain(|name, _| !marks.contains(&name.as_str()));
                }
                Ok(answer)
            }
            Err(CallError::Remote(error)) => Err(error),
            Err(error) => panic!("the call failed: {error:?}"),
        }
    }

    /// A tool's result.
    pub async fn call(&self, tool: &str, arguments: Json) -> Json {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask("tools/call", params).await.expect("a result")
    }

    /// The text of a tool's result.
    pub async fn text(&self, tool: &str, arguments: Json) -> String {
        let result = self.call(tool, arguments).await;
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// What the server says next.
    pub async fn hear(&mut self) -> (String, Json) {
        timeout(SOON, self.heard.recv()).await.expect("in time").expect("something")
    }

    /// Leaves, and waits until the server has noticed.
    pub async fn leave(self) {
        let Visitor { client, serving, hearing, task, .. } = self;
        // Also for whoever still listens.
        client.hang_up();
        timeout(SOON, async {
            task.await.expect("our side ends");
            serving.await.expect("the server's side ends");
            hearing.await.expect("nobody speaks any more");
        })
        .await
        .expect("all of it ends");
    }
}
