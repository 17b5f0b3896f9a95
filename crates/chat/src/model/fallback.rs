//! A model that another one stands in for while it is overloaded.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::model::language_model::{
    LanguageModel, ModelErrorKind, ModelRequest, ResponseDelta, ResponseFuture,
};

/// Two models: requests that the first one is too busy for go to the second one.
pub struct FallbackModel {
    first: Arc<dyn LanguageModel>,
    fallback: Arc<dyn LanguageModel>,
}

impl FallbackModel {
    /// The first model with a fallback.
    pub fn new(first: Arc<dyn LanguageModel>, fallback: Arc<dyn LanguageModel>) -> FallbackModel {
        FallbackModel { first, fallback }
    }
}

impl LanguageModel for FallbackModel {
    fn name(&self) -> &str {
        self.first.name()
    }

    /// The smaller window, because either model may get the conversation.
    fn context_window(&self) -> Option<u64> {
        match (self.first.context_window(), self.fallback.context_window()) {
            (Some(first), Some(fallback)) => Some(first.min(fallback)),
            (first, fallback) => first.or(fallback),
        }
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest,
        deltas: mpsc::Sender<ResponseDelta>,
    ) -> ResponseFuture<'a> {
        Box::pin(async move {
            let error = match self.first.respond(request.clone(), deltas.clone()).await {
                Err(error) if matches!(error.kind, ModelErrorKind::Overloaded(_)) => error,
                outcome => return outcome,
            };
            let reason = format!("{}; using {}", error.kind, self.fallback.name());
            let retrying = ResponseDelta::Retrying { attempt: 1, after: Duration::ZERO, reason };
            let _receiver_dropped = deltas.send(retrying).await;
            self.fallback.respond(request, deltas).await
        })
    }
}
