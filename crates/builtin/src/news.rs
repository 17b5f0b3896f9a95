//! Changes, told to every client that listens.

use tokio::sync::broadcast;

/// How many changes may wait for one client. Who falls further behind is told that anything may have changed.
const WAITING: usize = 64;

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Which tools there are.
    Tools,
    /// Which resources there are.
    Resources,
    /// One resource.
    Updated {
        /// Its address.
        uri: String,
    },
}

/// Tells of changes. Clones tell the same listeners.
#[derive(Debug, Clone)]
pub struct Herald(broadcast::Sender<News>);

impl Default for Herald {
    fn default() -> Herald {
        Herald(broadcast::Sender::new(WAITING))
    }
}

impl Herald {
    /// Tells everybody who listens now.
    pub fn tell(&self, news: News) {
        let _nobody_listens = self.0.send(news);
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<News> {
        self.0.subscribe()
    }
}
