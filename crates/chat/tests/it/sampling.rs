//! Sampling requests of servers.

use std::sync::Arc;

use serde_json::json;
use switchboard::config::settings::model::ModelProvider;
use switchboard::connection::SamplingModel;
use switchboard_chat::model::sampling::Sampler;
use testkit::ModelService;
use testkit::model_service::{Reply, ReplyEnd, ReplyPart};

use crate::model_clients::{FAST_RETRY, client_at};

#[tokio::test]
async fn a_servers_question_is_answered_by_the_persons_model() {
    for provider in ModelProvider::ALL {
        let cut = Reply::Message(vec![ReplyPart::text("Tea")], ReplyEnd::MaxTokens);
        let service = ModelService::start([cut]).expect("it starts");
        let sampler = Sampler::new(Arc::new(client_at(provider, service.origin(), FAST_RETRY)));
        let params = json!({
            "systemPrompt": "be kind",
            "maxTokens": 77,
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "What is this?"}},
                {"role": "user", "content": [{"type": "image", "mimeType": "image/png", "data": "aGk="}]},
            ],
        });
        let answer = sampler.create_message(params).await.expect("it answers");
        assert_eq!(
            answer,
            json!({
                "role": "assistant", "content": {"type": "text", "text": "Tea"},
                "model": "scripted", "stopReason": "maxTokens",
            })
        );
        let sent = service.request_body(0).to_string();
        for expected in ["be kind", "What is this?", "aGk=", "77"] {
            assert!(sent.contains(expected), "{provider:?}: {sent}");
        }
        let refused = sampler.create_message(json!({"messages": []})).await;
        assert_eq!(refused, Err("there is nothing to answer".to_owned()));
    }
}
