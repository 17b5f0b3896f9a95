//! Signs of progress on their way to the client: under its own token, and before the answer.

use std::borrow::Cow;
use std::future::ready;

use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::Progress;
use switchboard_wire::protocol::request_meta::RawObject;
use tokio::sync::mpsc;

use super::InboundRequest;
use crate::downstream::drain::forward_until_done;
use crate::downstream::request_context::ClientChannel;
use crate::multi_round_trip::pending::Outcome;

/// How many may wait; one more that finds no room says nothing new.
const PROGRESS_CAPACITY: usize = 64;

/// Works, and tells the client of progress where it wants to hear of it.
pub(super) async fn with_progress<W: Future<Output = Outcome>>(
    request: &InboundRequest,
    work: impl FnOnce(Option<mpsc::Sender<Progress>>) -> W,
) -> Outcome {
    let Some(token) = &request.meta.progress_token else { return work(None).await };
    let (sender, receiver) = mpsc::channel(PROGRESS_CAPACITY);
    let forward = |progress: Progress| {
        send_progress(&*request.channel, &progress, token);
        ready(())
    };
    // In a box, so that work of which nobody hears does not carry room for it about.
    Box::pin(forward_until_done(work(Some(sender)), receiver, forward)).await
}

fn send_progress(channel: &dyn ClientChannel, progress: &Progress, token: &Payload) {
    if let Some(mut members) = RawObject::parse(Some(&progress.0)) {
        members.insert("progressToken", token.clone());
        channel.notify(Cow::Borrowed("notifications/progress"), Some(members.to_payload()));
    }
}
