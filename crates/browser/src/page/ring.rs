//! A list that keeps its newest entries, each with a number, and counts those it has dropped.

use std::collections::VecDeque;

/// A list that keeps its newest entries.
#[derive(Debug)]
pub(crate) struct RingBuffer<T> {
    entries: VecDeque<(u64, T)>,
    capacity: usize,
    next: u64,
}

impl<T> RingBuffer<T> {
    pub(crate) fn new(capacity: usize) -> RingBuffer<T> {
        RingBuffer { entries: VecDeque::new(), capacity, next: 1 }
    }

    /// Adds an entry and returns its number.
    pub(crate) fn push(&mut self, entry: T) -> u64 {
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
        }
        let number = self.next;
        self.next += 1;
        self.entries.push_back((number, entry));
        number
    }

    /// Counts an entry that is not kept.
    pub(crate) fn skip(&mut self) {
        self.next += 1;
    }

    /// The entry with a number, if it is still there.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let at = self.entries.binary_search_by_key(&number, |it| it.0).ok()?;
        Some(&self.entries[at].1)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let at = self.entries.binary_search_by_key(&number, |it| it.0).ok()?;
        Some(&mut self.entries[at].1)
    }

    /// The entries after a number, oldest first.
    pub(crate) fn since(&self, number: u64) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.entries.iter().filter(move |it| it.0 > number).map(|it| (it.0, &it.1))
    }

    /// The number of the newest entry.
    pub(crate) fn newest(&self) -> u64 {
        self.next - 1
    }

    /// How many entries are not kept any more.
    pub(crate) fn dropped(&self) -> u64 {
        self.newest() - self.entries.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_stay_and_keep_their_numbers() {
        let mut ring = RingBuffer::new(2);
        for entry in ["a", "b", "c"] {
            ring.push(entry);
        }
        ring.skip();
        ring.push("e");
        assert_eq!(ring.since(0).collect::<Vec<_>>(), [(3, &"c"), (5, &"e")]);
        assert_eq!((ring.get(3), ring.get(1), ring.get(4)), (Some(&"c"), None, None));
        assert_eq!((ring.newest(), ring.dropped()), (5, 3));
        assert_eq!(ring.since(3).count(), 1);
    }
}
