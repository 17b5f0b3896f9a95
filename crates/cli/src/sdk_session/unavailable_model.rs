//! Stands for a model that cannot be used: the session starts, and every turn says why it fails.

use switchboard_chat::model::language_model::{
    LanguageModel, ModelError, ModelErrorKind, ModelRequest, ResponseDelta, ResponseFuture,
};
use tokio::sync::mpsc;

/// A model that cannot be used.
#[derive(Debug)]
pub(super) struct UnavailableModel {
    because: String,
}

impl UnavailableModel {
    pub(super) fn new(because: &str) -> UnavailableModel {
        UnavailableModel { because: because.to_owned() }
    }
}

impl LanguageModel for UnavailableModel {
    fn name(&self) -> &str {
        "none"
    }

    fn context_window(&self) -> Option<u64> {
        None
    }

    fn respond<'a>(
        &'a self,
        _request: ModelRequest,
        _deltas: mpsc::Sender<ResponseDelta>,
    ) -> ResponseFuture<'a> {
        let kind = ModelErrorKind::KeyRejected(self.because.clone());
        Box::pin(async { Err(ModelError { model: "the model".to_owned(), status: None, kind }) })
    }
}
