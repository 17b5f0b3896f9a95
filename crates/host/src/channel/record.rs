//! What became of a channel's messages in the session that ran last, for commands in other processes.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::counts::ChannelCounts;
use super::view::ChannelView;
use crate::sources::paths::Paths;
use crate::storage::stderr_log::utc_timestamp;
use crate::storage::ttl_cache::TtlCache;

/// How long a record is kept.
pub(crate) const CHANNEL_RECORD_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// What became of a channel's messages in one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChannelRecord {
    /// When it was written, in UTC.
    pub time: String,
    /// The id of the state: `registered`, or why not.
    pub state: String,
    /// The counts.
    #[serde(flatten)]
    pub counts: ChannelCounts,
}

impl ChannelRecord {
    /// The record of the session that ran last with this server. Reads a file; blocks.
    pub fn load(paths: &Paths, server: &str) -> Option<ChannelRecord> {
        let cache = TtlCache::new(&paths.channel_records(), CHANNEL_RECORD_TTL);
        serde_json::from_str(&cache.get(server)?).ok()
    }

    /// The record as of now, as text.
    pub(super) fn text_of(view: &ChannelView) -> String {
        let record = ChannelRecord {
            time: utc_timestamp(SystemTime::now()),
            state: view.state.id().to_owned(),
            counts: view.counts.clone(),
        };
        serde_json::to_string(&record).unwrap_or_default()
    }
}
