//! Forwards progress notifications to the client, with the client's own token and before the response.

use std::borrow::Cow;
use std::future::ready;

use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::Progress;
use switchboard_wire::protocol::request_meta::RawObject;
use tokio::sync::mpsc;

use crate::downstream::channel::ClientChannel;
use crate::downstream::drain::forward_until_done;
use crate::downstream::request::{InboundRequest, Outcome};

/// The capacity of the queue of notifications. Those that find it full are dropped.
const PROGRESS_CAPACITY: usize = 64;

/// Runs `work`, and forwards its progress if the client set a token.
pub(super) async fn with_progress<W: Future<Output = Outcome>>(
    request: &InboundRequest,
    work: impl FnOnce(Option<mpsc::Sender<Progress>>) -> W,
) -> Outcome {
    let Some(token) = &request.meta.progress_token else { return work(None).await };
    let (sender, receiver) = mpsc::channel(PROGRESS_CAPACITY);
    let forward = |progress: Progress| {
        send_progress(&*request.context.channel, &progress, token);
        ready(())
    };
    // Boxed, so that the future of a request without a token stays small.
    Box::pin(forward_until_done(work(Some(sender)), receiver, forward)).await
}

fn send_progress(channel: &dyn ClientChannel, progress: &Progress, token: &Payload) {
    if let Some(mut members) = RawObject::parse(Some(&progress.0)) {
        members.insert("progressToken", token.clone());
        channel.notify(Cow::Borrowed("notifications/progress"), Some(members.to_payload()));
    }
}
