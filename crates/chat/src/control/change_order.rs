//! The order of changes: requests of a program are handled at the same time, but those that change the same thing take
//! effect in the order in which they came.

use std::collections::HashMap;

use tokio::sync::oneshot;

/// What a request changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// The permission mode.
    Mode,
    /// The model and how much it thinks.
    Model,
    /// The servers and the configuration.
    Servers,
}

impl Change {
    /// What a request of this subtype changes.
    pub(crate) fn of(subtype: &str) -> &'static [Change] {
        match subtype {
            "initialize" => &[Change::Mode, Change::Model, Change::Servers],
            "set_permission_mode" => &[Change::Mode],
            "set_model" | "set_max_thinking_tokens" => &[Change::Model],
            "mcp_set_servers" | "mcp_toggle" | "reload_plugins" => &[Change::Servers],
            _ => &[],
        }
    }
}

/// The last turn for each kind of change.
#[derive(Debug, Default)]
pub(crate) struct ChangeOrder {
    last: HashMap<Change, oneshot::Receiver<()>>,
}

impl ChangeOrder {
    /// A turn behind all that were given out before.
    pub(crate) fn turn(&mut self, changes: &[Change]) -> ChangeTurn {
        let mut turn = ChangeTurn { before: Vec::new(), ends: Vec::new() };
        for change in changes {
            let (end, ended) = oneshot::channel();
            turn.before.extend(self.last.insert(*change, ended));
            turn.ends.push(end);
        }
        turn
    }
}

/// The right to change something, once the earlier turns have ended. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct ChangeTurn {
    before: Vec<oneshot::Receiver<()>>,
    /// Dropped with the turn, which ends the wait of later ones.
    ends: Vec<oneshot::Sender<()>>,
}

impl ChangeTurn {
    /// Waits for the earlier turns.
    pub(crate) async fn begin(&mut self) {
        while let Some(before) = self.before.last_mut() {
            // It ends without a word.
            let _ended = before.await;
            self.before.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_change_waits_for_earlier_ones_of_its_kind_and_for_no_others() {
        let mut order = ChangeOrder::default();
        let first = order.turn(&[Change::Model]);
        let mut other = order.turn(&[Change::Mode]);
        let mut second = order.turn(&[Change::Model]);
        let mut all = order.turn(Change::of("initialize"));
        assert_eq!(other.begin().now_or_never(), Some(()));
        assert_eq!(second.begin().now_or_never(), None);
        drop(first);
        assert_eq!(all.begin().now_or_never(), None);
        drop((second, other));
        let mut later = order.turn(&[Change::Servers]);
        assert_eq!(later.begin().now_or_never(), None);
        drop(all);
        assert_eq!(order.turn(&[Change::Mode]).begin().now_or_never(), Some(()));
    }
}
