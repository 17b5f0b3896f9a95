//! The handles that a call needs to reach servers. Clones share them.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::engine::handle::EngineHandle;
use crate::request::send::RequestSender;
use crate::resources::cache::ResourceReader;
use crate::tool_result::offload::MAX_CONCURRENT_IMAGE_DECODES;

/// The handles of a host, for calls.
#[derive(Debug, Clone)]
pub(crate) struct CallServices {
    resources: ResourceReader,
    /// Limits how many results with images are decoded at once, because each takes much memory.
    image_slots: Arc<Semaphore>,
}

impl CallServices {
    pub(crate) fn new(resources: ResourceReader) -> CallServices {
        let image_slots = Arc::new(Semaphore::new(MAX_CONCURRENT_IMAGE_DECODES));
        CallServices { resources, image_slots }
    }

    pub(crate) fn engine(&self) -> &EngineHandle {
        self.requests().engine()
    }

    pub(crate) fn requests(&self) -> &RequestSender {
        self.resources.requests()
    }

    pub(crate) fn resources(&self) -> &ResourceReader {
        &self.resources
    }

    pub(super) fn image_slots(&self) -> &Arc<Semaphore> {
        &self.image_slots
    }
}
