//! The section about the replicas of the gateway and their store.

use std::time::Duration;

use maud::{Markup, html};

use crate::dashboard::parts::{Tone, age, badge, count, nothing, seconds_since_1970, shown};
use crate::shared::fleet::{FleetView, StoreStatus};
use crate::shared::shared_state::SharedState;

/// The most replicas that are listed.
const MAX_REPLICAS: usize = 200;

/// The replicas that are alive; nothing for a gateway without a store.
pub(super) fn section(shared: &SharedState) -> Markup {
    let fleet = shared.fleet();
    let store = match fleet.store {
        StoreStatus::None => return html! {},
        StoreStatus::Starting => badge(Tone::Busy, "not reached yet"),
        StoreStatus::Connected => badge(Tone::Good, "connected"),
        StoreStatus::Away { since } => html! {
            (badge(Tone::Bad, "away"))
            " for " (age(Duration::from_secs(since.elapsed().as_secs())))
            ". Sessions of each replica go on; new ones are refused."
        },
    };
    html! {
        section aria-labelledby="replicas-heading" {
            h2 #replicas-heading { "Replicas " span.quiet { (fleet.alive.len()) } }
            p { "Store: " (store) }
            (table(shared, &fleet))
        }
    }
}

fn table(shared: &SharedState, fleet: &FleetView) -> Markup {
    if fleet.alive.is_empty() {
        return nothing("No replica is known: the store was not reached since the start.");
    }
    html! {
        div.table {
            table {
                thead {
                    tr {
                        th scope="col" { "Replica" }
                        th scope="col" { "Address" }
                        th scope="col" { "Version" }
                        th.number scope="col" { "Sessions" }
                        th scope="col" { "Since" }
                    }
                }
                tbody {
                    @for (id, replica) in fleet.alive.iter().take(MAX_REPLICAS) {
                        tr data-key={"replica-" (id.to_string())} {
                            th scope="row" {
                                code { (id.to_string()) }
                                @if *id == shared.me().id { " (this one)" }
                            }
                            td { code { (shown(&replica.address, 80)) } }
                            td { (shown(&replica.version, 40)) }
                            td.number { (count(replica.sessions)) }
                            td { (seconds_since_1970(replica.since)) }
                        }
                    }
                }
            }
        }
    }
}
