//! A binary heap from which any element can be removed, by its index in a table of parts.

/// What a part is sorted by: its deadline, then when its run began, then the order of coming.
pub(crate) type Key = (u64, u64, u64);

/// A heap of places, the least key first.
#[derive(Debug, Clone)]
pub(crate) struct Heap {
    items: Vec<(Key, u32)>,
}

impl Heap {
    pub(crate) fn with_capacity(capacity: usize) -> Heap {
        Heap {
            items: Vec::with_capacity(capacity),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The place of the least key.
    pub(crate) fn first(&self) -> Option<u32> {
        self.items.first().map(|(_, place)| *place)
    }

    /// Adds a place; calls `moved` with each place that moved and its new index.
    pub(crate) fn push(&mut self, key: Key, place: u32, mut moved: impl FnMut(u32, usize)) {
        self.items.push((key, place));
        self.rise(self.items.len() - 1, &mut moved);
    }

    /// Takes out what lies at this index.
    pub(crate) fn remove(&mut self, at: usize, mut moved: impl FnMut(u32, usize)) {
        self.items.swap_remove(at);
        if at < self.items.len() {
            let at = self.rise(at, &mut moved);
            self.sink(at, &mut moved);
        }
    }

    fn rise(&mut self, mut at: usize, moved: &mut impl FnMut(u32, usize)) -> usize {
        while at > 0 && self.items[at].0 < self.items[(at - 1) / 2].0 {
            self.items.swap(at, (at - 1) / 2);
            moved(self.items[at].1, at);
            at = (at - 1) / 2;
        }
        moved(self.items[at].1, at);
        at
    }

    fn sink(&mut self, mut at: usize, moved: &mut impl FnMut(u32, usize)) {
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.items.len());
            let Some(least) = children.min_by_key(|child| self.items[*child].0) else {
                break;
            };
            if self.items[at].0 <= self.items[least].0 {
                break;
            }
            self.items.swap(at, least);
            moved(self.items[at].1, at);
            at = least;
        }
        moved(self.items[at].1, at);
    }
}
