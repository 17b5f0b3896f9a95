//! From a received message to its response: checks a request, runs it in the background, and sends the result.
//! Transports call these methods; `tools` and `catalogue` produce the results.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::channel::PERMISSION_REQUEST;
use super::client_session::{
    CallCancellation, CallInProgress, ClientRequest, ClientSession, Subscription,
};
use super::protocol;
use super::protocol::{Handshake, META_SUBSCRIPTION_ID, RequestEra, RequestFailure, RpcError};
use super::server_state::{AfterMessage, NotificationSink};
use super::{catalogue, response_quirks, tools};
use crate::scripted::quirk::Quirk;

impl ClientSession {
    /// Handles a text from a transport with a single stream.
    pub fn receive_text(self: &Arc<Self>, text: &[u8], headers: &Value) {
        match serde_json::from_slice(text) {
            Ok(Value::Array(messages)) => {
                messages.into_iter().for_each(|it| self.receive(it, headers));
            }
            Ok(message) => self.receive(message, headers),
            Err(error) => {
                let rpc_error = RpcError::new(-32700, format!("this is not JSON: {error}"));
                self.standalone().send_message(&rpc_error.to_response(&Value::Null));
            }
        }
    }

    /// Handles a message from a transport with a single stream.
    pub fn receive(self: &Arc<Self>, message: Value, headers: &Value) {
        if self.server.receive(&message) == AfterMessage::Disconnect {
            return self.standalone().disconnect();
        }
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            return self.receive_notification(&message);
        };
        let params = &message["params"];
        match protocol::check_request(&self.server.script, self.initialized(), method, params) {
            Err(rpc_error) => self.respond_with_error(method.to_owned(), rpc_error.to_response(id)),
            Ok(era) => {
                let request = ClientRequest {
                    id: id.clone(),
                    method: method.to_owned(),
                    params: params.clone(),
                    era,
                    channel: self.standalone().clone(),
                    notifications: self.standalone().clone(),
                    headers: headers.clone(),
                };
                self.start_request(request);
            }
        }
    }

    fn respond_with_error(self: &Arc<Self>, method: String, response: Value) {
        let session = Arc::clone(self);
        let in_flight = self.server.begin_request();
        tokio::spawn(async move {
            let server = &session.server;
            response_quirks::delay(&server.script, &method).await;
            response_quirks::send_response(server, &method, response, session.standalone());
            drop(in_flight);
        });
    }

    /// Handles a notification or a response.
    pub fn receive_notification(self: &Arc<Self>, message: &Value) {
        match message["method"].as_str() {
            None => {
                let message_to_client =
                    self.state().server_requests.remove(&message["id"].to_string());
                if let Some(message_to_client) = message_to_client {
                    let _tool_gone = message_to_client.send(message.clone());
                }
            }
            Some("notifications/cancelled") => {
                let id = &message["params"]["requestId"];
                let call = self.state().calls.remove(&id.to_string());
                if let Some(CallInProgress { serial, label, cancel }) = call {
                    self.state().subscriptions.retain(|it| it.serial != serial);
                    self.server.record_cancelled(&label);
                    let _has_ended = cancel.send(CallCancellation);
                }
            }
            Some(PERMISSION_REQUEST) => {
                if let Some(channel) = &self.server.script.channel {
                    channel.answer(&message["params"], self.standalone());
                }
            }
            Some("notifications/initialized") => {
                if let Some(channel) = &self.server.script.channel {
                    channel.start(self.standalone());
                }
                if self.server.script.has_quirk(&Quirk::ElicitsOnInitialized) {
                    self.elicit_on_initialized();
                }
                for _ in 0..response_quirks::list_changed_count(&self.server.script) {
                    self.notify("notifications/tools/list_changed", &json!({}));
                }
            }
            Some(_) => {}
        }
    }

    /// Runs an accepted request in the background.
    pub fn start_request(self: &Arc<Self>, request: ClientRequest) {
        let (cancel, cancelled) = oneshot::channel();
        let serial = self.server.next_id();
        let call = CallInProgress { serial, label: request_label(&request), cancel };
        self.state().calls.insert(request.id.to_string(), call);
        let session = Arc::clone(self);
        let in_flight = self.server.begin_request();
        tokio::spawn(async move {
            session.respond(&request, serial, cancelled).await;
            session.state().calls.retain(|_, call| call.serial != serial);
            session.state().subscriptions.retain(|it| it.serial != serial);
            request.channel.close();
            drop(in_flight);
        });
    }

    async fn respond(
        self: &Arc<Self>,
        request: &ClientRequest,
        serial: usize,
        cancelled: oneshot::Receiver<CallCancellation>,
    ) {
        let server = &self.server;
        let response = async {
            let outcome = self.result_of(request, serial).await;
            response_quirks::delay(&server.script, &request.method).await;
            outcome
        };
        // In the legacy era, a disconnect is no cancellation.
        let disconnected = async {
            match request.era {
                RequestEra::Legacy => std::future::pending().await,
                RequestEra::Modern => request.channel.closed().await,
            }
        };
        let outcome = tokio::select! {
            biased;
            Ok(CallCancellation) = cancelled => return,
            () = disconnected => return server.record_cancelled(&request_label(request)),
            outcome = response => outcome,
        };
        let response = match outcome {
            Ok(mut result) => {
                protocol::add_result_metadata(
                    &server.script,
                    request.era,
                    &request.method,
                    &mut result,
                );
                json!({"jsonrpc": "2.0", "id": request.id, "result": result})
            }
            Err(RequestFailure::Error(rpc_error)) => rpc_error.to_response(&request.id),
            Err(RequestFailure::Crash) => {
                let _returns_only_inside_a_test = server.crash();
                return request.channel.disconnect();
            }
        };
        response_quirks::send_response(server, &request.method, response, &request.channel);
    }

    async fn result_of(
        self: &Arc<Self>,
        request: &ClientRequest,
        serial: usize,
    ) -> Result<Value, RequestFailure> {
        let script = &self.server.script;
        if request.method.ends_with("/list") && script.list_delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(script.list_delay_ms)).await;
        }
        let params = &request.params;
        match request.method.as_str() {
            "initialize" => {
                response_quirks::delay_start(&self.server).await;
                let mut state = self.state();
                state.initialized = Handshake::Complete;
                state.client = params.clone();
                Ok(protocol::initialize_result(script, params))
            }
            "server/discover" => {
                response_quirks::delay_start(&self.server).await;
                Ok(protocol::discover_result(script))
            }
            "tools/call" => tools::call_tool(self, request).await,
            "resources/read" => Ok(catalogue::read_resource(&self.server, request.era, params)?),
            "prompts/get" => Ok(catalogue::get_prompt(&self.server, params)?),
            "completion/complete" => Ok(catalogue::complete(params)),
            "subscriptions/listen" => self.listen(request, serial).await,
            "resources/subscribe" => {
                self.state()
                    .subscribed_resources
                    .push(params["uri"].as_str().unwrap_or_default().to_owned());
                if script.taint.is_some() {
                    self.notify_updated_soon(params["uri"].clone());
                }
                Ok(json!({}))
            }
            "resources/unsubscribe" => {
                self.state().subscribed_resources.retain(|it| params["uri"] != it.as_str());
                Ok(json!({}))
            }
            "ping" | "logging/setLevel" => Ok(json!({})),
            list => Ok(catalogue::list(&self.server, list, params)?),
        }
    }

    fn elicit_on_initialized(self: &Arc<Self>) {
        let session = Arc::clone(self);
        tokio::spawn(async move {
            let message = format!("{} wants a name.", session.server.script.name);
            let name = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
            let message_to_client = json!({"message": message, "requestedSchema": name});
            session
                .send_request(session.standalone(), "elicitation/create", &message_to_client)
                .await
        });
    }

    /// A tainted server sends notifications unprompted.
    fn notify_updated_soon(self: &Arc<Self>, uri: Value) {
        let session = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            session.notify("notifications/resources/updated", &json!({"uri": uri}));
        });
    }

    async fn listen(
        &self,
        request: &ClientRequest,
        serial: usize,
    ) -> Result<Value, RequestFailure> {
        let filter = request.params["notifications"].clone();
        if !filter.is_object() {
            return Err(RpcError::invalid_params("`notifications` must be an object").into());
        }
        let (end, ended) = oneshot::channel();
        let acknowledged = json!({
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": filter, "_meta": {META_SUBSCRIPTION_ID: request.id}},
        });
        request.channel.send_message(&acknowledged);
        let channel = request.channel.clone();
        self.state().subscriptions.push(Subscription {
            serial,
            id: request.id.clone(),
            filter,
            channel,
            end: Some(end),
        });
        for _ in 0..response_quirks::list_changed_count(&self.server.script) {
            self.notify("notifications/tools/list_changed", &json!({}));
        }
        if ended.await.is_err() {
            // Cancelled: no response follows.
            std::future::pending::<()>().await;
        }
        Ok(json!({"_meta": {META_SUBSCRIPTION_ID: request.id}}))
    }
}

/// The name of a request in the record of cancellations.
fn request_label(request: &ClientRequest) -> String {
    match request.params["name"].as_str() {
        Some(name) => name.to_owned(),
        None => request.method.clone(),
    }
}
