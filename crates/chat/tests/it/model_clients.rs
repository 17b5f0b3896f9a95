//! The three model clients against the scripted model service: their requests, how they parse responses, and how they
//! fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::config::secret::Secret;
use switchboard::config::settings::model::ModelProvider;
use switchboard::sources::Paths;
use switchboard::wire::http::client::HttpClient;
use switchboard::{HostEnv, HostOptions};
use switchboard_chat::message::{ContentBlock, Message, Role, ToolResult, ToolUse};
use switchboard_chat::model::client::ModelClient;
use switchboard_chat::model::config::{Effort, ModelConfig, ThinkingSetting};
use switchboard_chat::model::fallback::FallbackModel;
use switchboard_chat::model::language_model::{
    LanguageModel, ModelError, ModelRequest, ModelResponse, ResponseDelta, StopReason,
    ToolDefinition, Usage,
};
use switchboard_chat::model::retry::RetryPolicy;
use testkit::ModelService;
use testkit::model_service::{API_KEY, Reply, ReplyEnd, ReplyPart};
use tokio::sync::mpsc;
use url::Url;

/// Short delays, so that tests do not wait.
pub const FAST_RETRY: RetryPolicy = RetryPolicy {
    max_attempts: 5,
    initial_backoff: Duration::from_millis(2),
    max_backoff: Duration::from_millis(5),
    response_timeout: Duration::from_secs(20),
    idle_timeout: Duration::from_secs(20),
};

pub fn network() -> HttpClient {
    let options = HostOptions::new(Paths::in_dir("nowhere".as_ref()), HostEnv::default());
    HttpClient::new(&options.network).expect("a network")
}

pub fn client_at(provider: ModelProvider, origin: &str, policy: RetryPolicy) -> ModelClient {
    let base_url = match provider {
        ModelProvider::Anthropic => origin.to_owned(),
        ModelProvider::OpenAi | ModelProvider::OpenAiResponses => format!("{origin}/v1"),
    };
    let chosen = ModelConfig {
        provider,
        name: "scripted".to_owned(),
        base_url: Url::parse(&base_url).expect("a URL"),
        key: Some(Secret::new(API_KEY.to_owned())),
        max_tokens: None,
        context_window: Some(1000),
        thinking: ThinkingSetting::Off,
        effort: None,
    };
    ModelClient::new(&chosen, &network(), policy).expect("a client")
}

pub fn text(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.to_owned() }
}

fn user(parts: Vec<ContentBlock>) -> Message {
    Message { role: Role::User, content: parts }
}

fn assistant(parts: Vec<ContentBlock>) -> Message {
    Message { role: Role::Assistant, content: parts }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let schema = json!({"type": "object"});
    let tool = ToolDefinition {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        input_schema: schema,
    };
    ModelRequest {
        system_prompt: "be brief".into(),
        messages: messages.into(),
        tools: [tool].into(),
        max_tokens: None,
    }
}

async fn collect(
    client: &ModelClient,
    request: ModelRequest,
) -> (Result<ModelResponse, ModelError>, Vec<ResponseDelta>) {
    let (say, mut received) = mpsc::channel(100);
    let answer = client.respond(request, say);
    let gather = async {
        let mut deltas = Vec::new();
        while let Some(delta) = received.recv().await {
            deltas.push(delta);
        }
        deltas
    };
    let both = async { tokio::join!(answer, gather) };
    tokio::time::timeout(Duration::from_secs(60), both).await.expect("it ends")
}

/// Sends a request with every client, to a service with these replies.
async fn collect_from_all(
    replies: &[Reply],
) -> Vec<(ModelProvider, Result<ModelResponse, ModelError>, Vec<ResponseDelta>, ModelService)> {
    let mut all = Vec::new();
    for provider in ModelProvider::ALL {
        let service = ModelService::start(replies.to_vec()).expect("it starts");
        let client = client_at(provider, service.origin(), FAST_RETRY);
        let (answer, deltas) = collect(&client, request(vec![user(vec![text("hi")])])).await;
        all.push((provider, answer, deltas, service));
    }
    all
}

/// Checks that every client fails with this message after this number of requests.
async fn check_failure(replies: &[Reply], requests: usize, expected: &str) {
    for (provider, answer, _, service) in collect_from_all(replies).await {
        let error = answer.expect_err("it fails");
        assert_eq!(error.model, "scripted at 127.0.0.1");
        let words = error.kind.to_string();
        assert!(words.contains(expected), "{provider:?}: {words}");
        assert!(!format!("{error} {error:?} {words}").contains(API_KEY), "{words}");
        assert_eq!(service.requests().len(), requests, "{provider:?}");
    }
}

fn words(deltas: &[ResponseDelta]) -> String {
    let word = |it: &ResponseDelta| match it {
        ResponseDelta::Text(text) => text.clone(),
        ResponseDelta::Thinking(text) => format!("({text})"),
        ResponseDelta::Retrying { attempt, .. } => format!("<again {attempt}>"),
        ResponseDelta::ToolUse { .. }
        | ResponseDelta::ToolInput(_)
        | ResponseDelta::BlockEnded(_) => String::new(),
    };
    deltas.iter().map(word).collect()
}

#[tokio::test]
async fn text_is_streamed_and_usage_is_counted() {
    let reply = Reply::message([
        ReplyPart::text("He"),
        ReplyPart::text("llo, "),
        ReplyPart::text("wörld 🌍"),
    ]);
    for (provider, answer, deltas, _) in collect_from_all(&[reply]).await {
        let answer = answer.expect("it answers");
        let usage = Usage { input: 100, cached: 30, output: 7 };
        let expected = ModelResponse {
            content: vec![text("Hello, wörld 🌍")],
            stop_reason: StopReason::EndTurn,
            usage,
        };
        assert_eq!(answer, expected, "{provider:?}");
        let texts = deltas.iter().filter(|it| matches!(it, ResponseDelta::Text(_)));
        assert_eq!(texts.count(), 3, "{provider:?}");
        assert_eq!(words(&deltas), "Hello, wörld 🌍");
    }
}

#[tokio::test]
async fn calls_are_put_together_from_their_pieces() {
    let reply = Reply::message([
        ReplyPart::text("I look."),
        ReplyPart::tool_call("a", "look", &json!({"at": "the \"sea\"", "n": [1, 2]})),
        ReplyPart::tool_call("b", "look", &json!({})),
        ReplyPart::ToolCall {
            id: "c".to_owned(),
            tool: "look".to_owned(),
            arguments: "{oops".to_owned(),
        },
    ]);
    for (provider, answer, _, _) in collect_from_all(&[reply]).await {
        let answer = answer.expect("it answers");
        let call = |id: &str, arguments: Json| {
            ContentBlock::ToolUse(ToolUse { id: id.to_owned(), tool: "look".to_owned(), arguments })
        };
        let expected = [
            text("I look."),
            call("a", json!({"at": "the \"sea\"", "n": [1, 2]})),
            call("b", json!({})),
            call("c", json!("{oops")),
        ];
        assert_eq!(
            (answer.content.as_slice(), answer.stop_reason),
            (&expected[..], StopReason::ToolUse),
            "{provider:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_or_refused_says_so_and_half_a_call_is_none() {
    let half = ReplyPart::ToolCall {
        id: "c".to_owned(),
        tool: "look".to_owned(),
        arguments: "{\"a".to_owned(),
    };
    let cut = Reply::Message(vec![ReplyPart::text("I "), half], ReplyEnd::MaxTokens);
    for (provider, answer, _, _) in collect_from_all(&[cut]).await {
        let answer = answer.expect("it answers");
        assert_eq!(answer.stop_reason, StopReason::MaxTokens, "{provider:?}");
        assert_eq!(answer.content[0], text("I "), "{provider:?}");
    }
    let refused = Reply::Message(vec![ReplyPart::text("No.")], ReplyEnd::Refusal);
    for (provider, answer, _, _) in collect_from_all(&[refused]).await {
        let answer = answer.expect("it answers");
        assert_eq!(
            (answer.stop_reason, answer.content),
            (StopReason::Refusal, vec![text("No.")]),
            "{provider:?}"
        );
    }
}

#[tokio::test]
async fn thinking_goes_back_to_the_same_model_only() {
    let think = Reply::message([
        ReplyPart::thinking("hmm, tea"),
        ReplyPart::tool_call("a", "look", &json!({})),
    ]);
    for provider in ModelProvider::ALL {
        let service = ModelService::start([think.clone(), Reply::text("ok")]).expect("it starts");
        let client = client_at(provider, service.origin(), FAST_RETRY);
        let mut messages = vec![user(vec![text("hi")])];
        let (answer, deltas) = collect(&client, request(messages.clone())).await;
        let thoughts: String = deltas
            .iter()
            .map(|it| match it {
                ResponseDelta::Thinking(text) => text.as_str(),
                ResponseDelta::Text(_)
                | ResponseDelta::ToolUse { .. }
                | ResponseDelta::ToolInput(_)
                | ResponseDelta::BlockEnded(_)
                | ResponseDelta::Retrying { .. } => "",
            })
            .collect();
        assert_eq!(thoughts, "hmm, tea", "{provider:?}");
        messages.push(assistant(answer.expect("it answers").content));
        let result =
            ToolResult { id: "a".to_owned(), content: vec![text("seen")], is_error: false };
        messages.push(user(vec![ContentBlock::ToolResult(result)]));
        let (answer, _) = collect(&client, request(messages.clone())).await;
        answer.expect("the service has nothing against it");
        let sent = service.request_body(1).to_string();
        let gives_back = provider != ModelProvider::OpenAi;
        assert_eq!(sent.contains("sealed-1"), gives_back, "{provider:?}: {sent}");
        // Other providers do not receive it.
        for other in ModelProvider::ALL.into_iter().filter(|it| *it != provider) {
            service.add_reply(Reply::text("ok"));
            let client = client_at(other, service.origin(), FAST_RETRY);
            collect(&client, request(messages.clone())).await.0.expect("it answers");
            let sent = service.requests().last().and_then(|it| it.body.clone()).unwrap_or_default();
            assert!(!sent.to_string().contains("sealed-1"), "{provider:?} to {other:?}: {sent}");
        }
    }
}

/// A conversation with every kind of message part.
fn all_kinds() -> Vec<Message> {
    let call = |id: &str, arguments| {
        ContentBlock::ToolUse(ToolUse { id: id.to_owned(), tool: "look".to_owned(), arguments })
    };
    let picture =
        || ContentBlock::Image { mime: "image/png".to_owned(), base64: "aGk=".to_owned() };
    let result = |id: &str, parts, is_error| {
        ContentBlock::ToolResult(ToolResult { id: id.to_owned(), content: parts, is_error })
    };
    vec![
        user(vec![text("look at this"), picture()]),
        assistant(vec![text("I do."), call("a.1", json!({"x": 1})), call("b", json!("no object"))]),
        user(vec![
            result("a.1", vec![text("seen"), picture()], false),
            result("b", vec![text("no luck")], true),
            text("and hurry"),
        ]),
        user(vec![text("please")]),
    ]
}

#[tokio::test]
async fn a_conversation_with_everything_in_it_is_one_that_each_service_takes() {
    let mut bodies = BTreeMap::new();
    for provider in ModelProvider::ALL {
        let service = ModelService::start([Reply::text("ok")]).expect("it starts");
        let client = client_at(provider, service.origin(), FAST_RETRY);
        let (answer, _) = collect(&client, request(all_kinds())).await;
        answer.unwrap_or_else(|it| panic!("{provider:?}: {}", it.kind));
        bodies.insert(provider.id(), service.request_body(0));
    }
    let messages = &bodies["anthropic"];
    assert_eq!(messages["system"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(messages["tools"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(
        messages["messages"],
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "look at this"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
            ]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I do."},
                {"type": "tool_use", "id": "a_1", "name": "look", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {"arguments": "no object"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a_1", "is_error": false, "content": [
                    {"type": "text", "text": "seen"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                ]},
                {"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": [{"type": "text", "text": "no luck"}]},
                {"type": "text", "text": "and hurry"},
                {"type": "text", "text": "please", "cache_control": {"type": "ephemeral"}},
            ]},
        ])
    );
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}});
    assert_eq!(
        bodies["openai"]["messages"],
        json!([
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "look at this"}, picture]},
            {"role": "assistant", "content": "I do.", "tool_calls": [
                {"id": "a.1", "type": "function", "function": {"name": "look", "arguments": "{\"x\":1}"}},
                {"id": "b", "type": "function", "function": {"name": "look", "arguments": "no object"}},
            ]},
            {"role": "tool", "tool_call_id": "a.1", "content": "seen\n[a picture, image/png, shown below]"},
            {"role": "tool", "tool_call_id": "b", "content": "error: no luck"},
            {"role": "user", "content": [
                {"type": "text", "text": "[pictures of the results above]"}, picture, {"type": "text", "text": "and hurry"},
            ]},
            {"role": "user", "content": "please"},
        ])
    );
    assert_eq!(bodies["openai"]["stream_options"], json!({"include_usage": true}));
    let input = &bodies["openai-responses"]["input"];
    assert_eq!(
        input[1],
        json!({"type": "message", "id": "msg_1_0", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "I do.", "annotations": []},
        ]})
    );
    assert_eq!(bodies["openai-responses"]["instructions"], "be brief");
    assert_eq!(
        input[2],
        json!({"type": "function_call", "call_id": "a.1", "name": "look", "arguments": "{\"x\":1}"})
    );
    assert_eq!(
        input[4],
        json!({"type": "function_call_output", "call_id": "a.1", "output": [
            {"type": "input_text", "text": "seen"}, {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
        ]})
    );
    assert_eq!(input[5]["output"], "error: no luck");
}

#[tokio::test]
async fn transient_errors_are_retried_and_reported() {
    for status in [408, 409, 425, 429, 500, 502, 503, 529] {
        let replies = [Reply::error(status, "api_error", "not now"), Reply::text("ok")];
        for (provider, answer, deltas, service) in collect_from_all(&replies).await {
            assert!(answer.is_ok(), "{provider:?} after {status}");
            assert_eq!(words(&deltas), "<again 1>ok");
            assert_eq!(service.requests().len(), 2);
        }
    }
}

#[tokio::test]
async fn a_services_word_on_when_to_come_back_counts() {
    let replies = [
        Reply::error(429, "rate_limit_error", "slow down").with_header("retry-after", "0.25"),
        Reply::text("ok"),
    ];
    for (provider, answer, deltas, _) in collect_from_all(&replies).await {
        assert!(answer.is_ok(), "{provider:?}");
        let ResponseDelta::Retrying { after, reason, .. } = &deltas[0] else {
            panic!("{deltas:?}")
        };
        assert_eq!(*after, Duration::from_millis(250));
        assert!(reason.contains("slow down"), "{reason}");
    }
}

#[tokio::test]
async fn it_is_not_tried_for_ever_and_not_where_that_cannot_help() {
    let busy = vec![Reply::error(529, "overloaded_error", "Overloaded"); 9];
    check_failure(&busy, 5, "it is overloaded: Overloaded (529)").await;
    let quota = [Reply::error(429, "insufficient_quota", "no money")];
    check_failure(&quota, 1, "it is overloaded: no money (429)").await;
    let never = [Reply::error(500, "api_error", "never").with_header("x-should-retry", "false")];
    check_failure(&never, 1, "it refused the request (500): never").await;
    let missing = [Reply::error(404, "not_found_error", "model: scripted")];
    check_failure(
        &missing,
        1,
        "(404): there is no such model, or nothing at this address: model: scripted",
    )
    .await;
    let large = [Reply::error(413, "request_too_large", "too large")];
    check_failure(&large, 1, "the conversation is too long for it: too large").await;
    let long = [Reply::error(400, "context_length_exceeded", "100 tokens too many")];
    check_failure(&long, 1, "the conversation is too long for it: 100 tokens").await;
    let long = [Reply::error(400, "invalid_request_error", "prompt is too long: 9 > 8")];
    check_failure(&long, 1, "the conversation is too long for it: prompt").await;
    let wrong = [Reply::error(400, "invalid_request_error", "what?\u{1b}[2J")];
    check_failure(&wrong, 1, "it refused the request (400): what?").await;
    let elsewhere = Reply::Error {
        status: 302,
        headers: vec![("location", "http://127.0.0.1:1/".to_owned())],
        body: String::new(),
    };
    check_failure(&[elsewhere], 1, "it redirects, and redirects are not followed").await;
}

#[tokio::test]
async fn a_wrong_key_is_reported_and_never_shown() {
    for provider in ModelProvider::ALL {
        let service = ModelService::start([]).expect("it starts");
        let base_url = format!("{}/v1", service.origin());
        let chosen = ModelConfig {
            provider,
            name: "scripted".to_owned(),
            base_url: Url::parse(&base_url).expect("a URL"),
            key: Some(Secret::new("sk-wrong-canary".to_owned())),
            max_tokens: None,
            context_window: None,
            thinking: ThinkingSetting::Off,
            effort: None,
        };
        assert!(!format!("{chosen:?}").contains("canary"));
        let client = ModelClient::new(&chosen, &network(), FAST_RETRY).expect("a client");
        let (answer, _) = collect(&client, request(vec![user(vec![text("hi")])])).await;
        let error = answer.expect_err("it fails");
        let words = error.kind.to_string();
        assert!(words.starts_with("it does not accept the key: invalid key:"), "{words}");
        // The error message of the service quotes the request.
        assert!(!format!("{error:?} {client:?} {words}").contains("canary"), "{words}");
        assert_eq!(service.requests().len(), 1);
    }
}

/// The body that a service gets from a model that thinks like this.
async fn sent_body(provider: ModelProvider, thinking: ThinkingSetting, effort: Effort) -> Json {
    let service = ModelService::start([Reply::text("ok")]).expect("it starts");
    let path = if provider == ModelProvider::Anthropic { "" } else { "/v1" };
    let chosen = ModelConfig {
        provider,
        name: "scripted".to_owned(),
        base_url: Url::parse(&format!("{}{path}", service.origin())).expect("a URL"),
        key: Some(Secret::new(API_KEY.to_owned())),
        max_tokens: Some(100),
        context_window: None,
        thinking,
        effort: Some(effort),
    };
    let client = ModelClient::new(&chosen, &network(), FAST_RETRY).expect("a client");
    collect(&client, request(vec![user(vec![text("hi")])])).await.0.expect("it answers");
    service.request_body(0)
}

#[tokio::test]
async fn thinking_and_effort_are_written_as_each_service_reads_them() {
    use ModelProvider::{Anthropic, OpenAi, OpenAiResponses};
    let body = sent_body(Anthropic, ThinkingSetting::Budget(2048), Effort::ExtraHigh).await;
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 2048}));
    assert_eq!(body["output_config"], json!({"effort": "xhigh"}));
    assert_eq!(body["max_tokens"], 2148);
    let body = sent_body(Anthropic, ThinkingSetting::Adaptive, Effort::Max).await;
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    let body = sent_body(Anthropic, ThinkingSetting::Off, Effort::Low).await;
    assert_eq!((&body["thinking"], &body["output_config"]["effort"]), (&Json::Null, &json!("low")));
    let body = sent_body(OpenAi, ThinkingSetting::Off, Effort::Max).await;
    assert_eq!(body["reasoning_effort"], "high");
    let body = sent_body(OpenAiResponses, ThinkingSetting::Off, Effort::Medium).await;
    assert_eq!(body["reasoning"]["effort"], "medium");
}

#[tokio::test]
async fn the_fallback_answers_while_the_first_model_is_overloaded_and_only_then() {
    for (error, expected) in [("overloaded_error", Some("second")), ("api_error", None)] {
        let status = if expected.is_some() { 529 } else { 400 };
        let busy = ModelService::start(vec![Reply::error(status, error, "no"); 9]);
        let busy = busy.expect("it starts");
        let idle = ModelService::start([Reply::text("second")]).expect("it starts");
        let at = |service: &ModelService| -> Arc<dyn LanguageModel> {
            Arc::new(client_at(ModelProvider::Anthropic, service.origin(), FAST_RETRY))
        };
        let model = FallbackModel::new(at(&busy), at(&idle));
        let (sender, mut receiver) = mpsc::channel(100);
        let answer = model.respond(request(vec![user(vec![text("hi")])]), sender).await;
        assert_eq!(answer.ok().map(|it| it.content), expected.map(|it| vec![text(it)]));
        assert_eq!(idle.requests().len(), usize::from(expected.is_some()));
        let mut deltas = Vec::new();
        while let Some(delta) = receiver.recv().await {
            deltas.push(delta);
        }
        assert_eq!(words(&deltas).ends_with("<again 1>second"), expected.is_some(), "{deltas:?}");
    }
}

#[tokio::test]
async fn malformed_responses_are_reported() {
    let page =
        Reply::Error { status: 200, headers: Vec::new(), body: "<html>sign in</html>".to_owned() };
    check_failure(&[page], 1, "its response is invalid: text/html instead of a stream").await;
    let page =
        Reply::Error { status: 400, headers: Vec::new(), body: "<html>bad</html>".to_owned() };
    check_failure(&[page], 1, "it refused the request (400): a web page (400)").await;
    check_failure(&[Reply::Raw("data: {oops\n\n".to_owned())], 1, "an event that is not JSON")
        .await;
    let endless = format!("data: {}", "x".repeat(17 * 1024 * 1024));
    check_failure(&[Reply::Raw(endless)], 1, "an event that is too large").await;
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_retried() {
    for broken in [
        Reply::message([ReplyPart::text("I was"), ReplyPart::Disconnect]),
        Reply::Message(vec![ReplyPart::text("I was")], ReplyEnd::Missing),
        Reply::message([ReplyPart::text("I was"), ReplyPart::Overloaded]),
    ] {
        for (provider, answer, deltas, _) in collect_from_all(&[broken, Reply::text("I am")]).await
        {
            let answer = answer.unwrap_or_else(|it| panic!("{provider:?}: {}", it.kind));
            assert_eq!(answer.content, [text("I am")], "{provider:?}");
            assert_eq!(words(&deltas), "I was<again 1>I am", "{provider:?}");
        }
    }
    let always = vec![Reply::Message(vec![ReplyPart::text("I")], ReplyEnd::Missing); 9];
    check_failure(&always, 5, "its answer broke off: the stream ended before the answer did").await;
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_given_up() {
    for provider in ModelProvider::ALL {
        let silent = Reply::message([ReplyPart::text("I"), ReplyPart::Stall]);
        let service = ModelService::start([silent, Reply::text("ok")]).expect("it starts");
        let policy = RetryPolicy { idle_timeout: Duration::from_millis(100), ..FAST_RETRY };
        let client = client_at(provider, service.origin(), policy);
        let (answer, deltas) = collect(&client, request(vec![user(vec![text("hi")])])).await;
        assert!(answer.is_ok(), "{provider:?}");
        let messages = deltas.iter().find_map(|it| match it {
            ResponseDelta::Retrying { reason, .. } => Some(reason.clone()),
            ResponseDelta::Text(_)
            | ResponseDelta::Thinking(_)
            | ResponseDelta::ToolUse { .. }
            | ResponseDelta::ToolInput(_)
            | ResponseDelta::BlockEnded(_) => None,
        });
        assert_eq!(messages.as_deref(), Some("its answer broke off: nothing came for 0.1 s"));
    }
}

#[tokio::test]
async fn a_host_that_is_not_there_is_named() {
    for provider in ModelProvider::ALL {
        let client = client_at(
            provider,
            "http://127.0.0.1:1",
            RetryPolicy { max_attempts: 2, ..FAST_RETRY },
        );
        let (answer, deltas) = collect(&client, request(vec![user(vec![text("hi")])])).await;
        let words = answer.expect_err("it fails").kind.to_string();
        assert!(words.starts_with("it cannot be reached: http://127.0.0.1:1: "), "{words}");
        assert_eq!(deltas.len(), 1);
    }
}

#[tokio::test]
async fn dropping_an_answer_hangs_up() {
    for provider in ModelProvider::ALL {
        let endless = Reply::message([ReplyPart::text("I"), ReplyPart::Stall]);
        let service = ModelService::start([endless]).expect("it starts");
        let client = client_at(provider, service.origin(), FAST_RETRY);
        let (say, mut received) = mpsc::channel(10);
        let answering = client.respond(request(vec![user(vec![text("hi")])]), say);
        tokio::select! {
            _ = answering => panic!("it is not over"),
            delta = received.recv() => assert_eq!(delta, Some(ResponseDelta::Text("I".to_owned()))),
        }
        let left = tokio::task::spawn_blocking(move || service.wait_for_disconnect());
        left.await.expect("the service noticed");
    }
}

#[tokio::test]
async fn a_model_that_cannot_give_its_thoughts_away_is_asked_without_them() {
    let body = json!({"error": {"message": "Encrypted content is not supported with this model.", "type": "invalid_request_error", "param": "include", "code": null}});
    let refuse = Reply::Error { status: 400, headers: Vec::new(), body: body.to_string() };
    let service =
        ModelService::start([refuse, Reply::text("ok"), Reply::text("ok")]).expect("it starts");
    let client = client_at(ModelProvider::OpenAiResponses, service.origin(), FAST_RETRY);
    for _ in 0..2 {
        let (answer, _) = collect(&client, request(vec![user(vec![text("hi")])])).await;
        answer.expect("it answers");
    }
    let asks = |at: usize| !service.request_body(at)["include"].is_null();
    assert_eq!((asks(0), asks(1), asks(2)), (true, false, false));
}

#[tokio::test]
async fn chunks_that_are_not_quite_right_are_understood() {
    // Complete calls in one event, all with the same index, arguments as an object, no end marker.
    let call = |id: &str, arguments: Json| json!({"index": 0, "id": id, "function": {"name": "look", "arguments": arguments}});
    let first = json!({"choices": [{"delta": {"tool_calls": [call("a", json!("{\"x\":1}"))]}}]});
    let second = json!({"choices": [{"delta": {"tool_calls": [call("b", json!({"x": 2}))]}, "finish_reason": "stop"}]});
    let raw = format!("data: {first}\r\n\r\n: a comment\r\ndata: {second}\r\n\r\n");
    let service = ModelService::start([Reply::Raw(raw)]).expect("it starts");
    let client = client_at(ModelProvider::OpenAi, service.origin(), FAST_RETRY);
    let (answer, _) = collect(&client, request(vec![user(vec![text("hi")])])).await;
    let answer = answer.expect("it answers");
    let call = |id: &str, x: u8| {
        let arguments = json!({"x": x});
        ContentBlock::ToolUse(ToolUse { id: id.to_owned(), tool: "look".to_owned(), arguments })
    };
    assert_eq!(
        (answer.content, answer.stop_reason),
        (vec![call("a", 1), call("b", 2)], StopReason::ToolUse)
    );
}

/// A stream of these events.
fn stream_of(events: &[Json]) -> Reply {
    Reply::Raw(events.iter().map(|it| format!("data: {it}\n\n")).collect())
}

/// The response to a stream of events is this text, and all of it is streamed.
async fn check_text(provider: ModelProvider, events: &[Json], expected: &str) {
    let service = ModelService::start([stream_of(events)]).expect("it starts");
    let client = client_at(provider, service.origin(), FAST_RETRY);
    let (response, deltas) = collect(&client, request(vec![user(vec![text("hi")])])).await;
    let response = response.unwrap_or_else(|it| panic!("{provider:?}: {}", it.kind));
    assert_eq!(words(&deltas), expected, "{provider:?}: {events:?}");
    let block = |it: &ContentBlock| match it {
        ContentBlock::Text { text } => text.clone(),
        ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolUse(_)
        | ContentBlock::ToolResult(_) => panic!("{it:?}"),
    };
    let whole: String = response.content.iter().map(block).collect();
    assert_eq!(whole, expected, "{provider:?}: {events:?}");
}

#[tokio::test]
async fn responses_text_that_came_in_no_delta_is_streamed_once_the_item_is_complete() {
    let item = |text: &str| {
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        json!({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content})
    };
    let done = |at: usize, text: &str| json!({"type": "response.output_item.done", "output_index": at, "item": item(text)});
    let delta = |at: usize, text: &str| json!({"type": "response.output_text.delta", "output_index": at, "delta": text});
    let completed =
        |output: Json| json!({"type": "response.completed", "response": {"output": output}});
    let provider = ModelProvider::OpenAiResponses;
    check_text(provider, &[done(0, "sunday"), completed(json!([]))], "sunday").await;
    check_text(provider, &[done(0, "sunday"), completed(json!([item("sunday")]))], "sunday").await;
    check_text(provider, &[completed(json!([item("sun"), item("day")]))], "sunday").await;
    check_text(provider, &[delta(0, "sun"), done(0, "sunday"), completed(json!([]))], "sunday")
        .await;
    check_text(provider, &[delta(0, "sun"), completed(json!([item("sunday")]))], "sunday").await;
    let mixed = [done(0, "first, "), delta(1, "sun"), delta(1, "day"), done(1, "sunday")];
    check_text(provider, &[&mixed[..], &[completed(Json::Null)]].concat(), "first, sunday").await;
    check_text(provider, &[delta(0, "sunday"), completed(json!([]))], "sunday").await;
}

#[tokio::test]
async fn completions_and_messages_with_whole_messages_in_the_stream_are_understood() {
    let completions = ModelProvider::OpenAi;
    let choice = |choice: Json| json!({"choices": [choice]});
    let stop = choice(json!({"delta": {}, "finish_reason": "stop"}));
    let whole = choice(
        json!({"message": {"role": "assistant", "content": "sunday"}, "finish_reason": "stop"}),
    );
    let delta = choice(json!({"delta": {"content": "sun"}}));
    check_text(completions, std::slice::from_ref(&whole), "sunday").await;
    check_text(completions, &[delta, whole], "sunday").await;
    let parts = json!([{"type": "text", "text": "sun"}, {"type": "text", "text": "day"}]);
    check_text(completions, &[choice(json!({"delta": {"content": parts}})), stop], "sunday").await;
    let end = [
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
    ];
    let start = json!({"type": "message_start", "message": {"content": [{"type": "text", "text": "sunday"}]}});
    check_text(ModelProvider::Anthropic, &[&[start], &end[..]].concat(), "sunday").await;
    let late = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "sunday"}});
    check_text(ModelProvider::Anthropic, &[&[late], &end[..]].concat(), "sunday").await;
}
