//! Many short arrays at fixed addresses, in few allocations.
//!
//! Invariant: elements do not move, because a chunk never grows.

/// Elements of the first chunk; a later one has twice as many as the one before it.
const FIRST: usize = 64;

/// Short arrays, one behind the other.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    full: Vec<Vec<T>>,
    current: Vec<T>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Chunks<T> {
        Chunks {
            full: Vec::new(),
            current: Vec::new(),
        }
    }
}

impl<T> Chunks<T> {
    /// Adds an array; its address is valid as long as this lives.
    pub(super) fn add(&mut self, items: impl ExactSizeIterator<Item = T>) -> *const T {
        let count = items.len();
        if self.current.capacity() - self.current.len() < count {
            let next = (2 * self.current.capacity()).max(FIRST).max(count);
            let full = std::mem::replace(&mut self.current, Vec::with_capacity(next));
            self.full.push(full);
        }
        let start = self.current.len();
        // an iterator that yields more than it says adds nothing
        self.current.extend(items.take(count));
        self.current[start..].as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_stay_where_they_are() {
        let mut chunks = Chunks::default();
        let arrays: Vec<Vec<u32>> = (0..200u32).map(|size| (0..size).collect()).collect();
        let added: Vec<*const u32> = arrays
            .iter()
            .map(|array| chunks.add(array.iter().copied()))
            .collect();
        let all: Vec<&[u32]> = chunks
            .full
            .iter()
            .chain([&chunks.current])
            .map(Vec::as_slice)
            .collect();
        assert!(all.len() < 12, "{} allocations", all.len());
        for (array, added) in arrays.iter().zip(added) {
            let is_there = all.iter().any(|chunk| {
                let start = chunk.iter().position(|element| std::ptr::eq(element, added));
                start.is_some_and(|start| chunk[start..].starts_with(array))
            });
            assert!(array.is_empty() || is_there, "{} elements", array.len());
        }
    }
}
