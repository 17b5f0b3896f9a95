//! Signs of progress on their way to the client: under its own token, and before the answer.

use std::borrow::Cow;
use std::future::ready;

use switchboard_wire::asked::Members;
use switchboard_wire::message::Payload;
use switchboard_wire::peer::Progress;
use tokio::sync::mpsc;

use super::Asked;
use crate::attendant::Outlet;
use crate::meanwhile::told_before;
use crate::turn::Outcome;

/// How many may wait; one more that finds no room says nothing new.
const WAITING: usize = 64;

/// Works, and tells the client of progress where it wants to hear of it.
pub(super) async fn told<W: Future<Output = Outcome>>(
    asked: &Asked,
    work: impl FnOnce(Option<mpsc::Sender<Progress>>) -> W,
) -> Outcome {
    let Some(token) = &asked.meta.progress_token else { return work(None).await };
    let (signs, heard) = mpsc::channel(WAITING);
    let tell = |sign: Progress| {
        tell(&*asked.outlet, &sign, token);
        ready(())
    };
    // In a box, so that work of which nobody hears does not carry room for it about.
    Box::pin(told_before(work(Some(signs)), heard, tell)).await
}

fn tell(outlet: &dyn Outlet, sign: &Progress, token: &Payload) {
    if let Some(mut members) = Members::read(Some(&sign.0)) {
        members.put("progressToken", token.clone());
        outlet.say(Cow::Borrowed("notifications/progress"), Some(members.written()));
    }
}
