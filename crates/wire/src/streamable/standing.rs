//! The stream on which a server speaks by itself: opened after the session began, and again when it is lost.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::listen::{Listening, RETRY, listen};
use super::{Context, Done, Said};
use crate::events::Events;
use crate::fault::Fault;

/// The longest wait before a lost stream is asked for again, and the shortest.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// From the shortest wait it takes this many to the longest.
const MOST_DOUBLINGS: u32 = 9;

/// Listens until the server does not want it any more.
pub(super) async fn run(
    context: Arc<Context>,
    prepared: HeaderMap,
    say: mpsc::Sender<Said>,
) -> Done {
    let mut last_id = None;
    let mut retry = RETRY;
    let mut in_vain = 0;
    let mut was_open = false;
    loop {
        match listen(&context, &prepared, last_id.clone()).await {
            Ok(Listening::To(mut events)) => {
                was_open = true;
                let opened = Instant::now();
                let heard = hear(&mut events, &say).await;
                if let Some(id) = events.last_id() {
                    last_id = HeaderValue::from_bytes(id).ok();
                }
                if let Some(told) = events.retry() {
                    retry = told.clamp(SHORTEST_WAIT, LONGEST_WAIT);
                }
                match heard {
                    Heard::Something => in_vain = 0,
                    Heard::Nothing if opened.elapsed() >= LONGEST_WAIT => in_vain = 0,
                    Heard::Nothing => {}
                    Heard::TooMuch => return Done::Standing,
                }
            }
            // A server that was there may be starting again; one that never had such a stream has none.
            Ok(Listening::Refused(status)) if was_open && status.is_server_error() => {}
            Ok(Listening::Refused(_)) => return Done::Standing,
            Err(Fault::RedirectedAway { .. }) => return Done::Standing,
            Err(_) => {}
        }
        sleep(retry.saturating_mul(1 << in_vain).min(LONGEST_WAIT)).await;
        in_vain = (in_vain + 1).min(MOST_DOUBLINGS);
    }
}

/// What a stream was like.
enum Heard {
    Nothing,
    Something,
    /// More than we take. It would come again.
    TooMuch,
}

async fn hear(events: &mut Events, say: &mpsc::Sender<Said>) -> Heard {
    let mut heard = Heard::Nothing;
    loop {
        match events.next().await {
            Ok(Some(event)) => {
                heard = Heard::Something;
                for arrival in event.arrivals() {
                    let _link_gone = say.send(Said::Arrival(arrival)).await;
                }
            }
            Err(Fault::TooLarge { .. }) => return Heard::TooMuch,
            Ok(None) | Err(_) => return heard,
        }
    }
}
