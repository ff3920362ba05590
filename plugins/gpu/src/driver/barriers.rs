//! Which launches must wait for those before them: by the bytes that they read and write.
//!
//! Invariant: between two launches of which one writes what the other touches there is a barrier.
//!
//! Not here: the barrier itself (`recording`).

/// Bytes of a buffer that a launch touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Touch {
    /// Which buffer: an order of no meaning.
    pub(super) buffer: u64,
    /// First byte.
    pub(super) start: u64,
    /// First byte behind.
    pub(super) end: u64,
    /// Whether it is written.
    pub(super) writes: bool,
}

impl Touch {
    fn collides(&self, other: &Touch) -> bool {
        (self.writes || other.writes)
            && self.buffer == other.buffer
            && self.start < other.end
            && other.start < self.end
    }
}

/// What the launches since the last barrier touch.
#[derive(Debug, Default)]
pub(super) struct Pending(Vec<Touch>);

impl Pending {
    /// Takes the next launch in; whether it must wait for those before it.
    pub(super) fn follows(&mut self, launch: &[Touch]) -> bool {
        let waits = self
            .0
            .iter()
            .any(|before| launch.iter().any(|touch| touch.collides(before)));
        if waits {
            self.0.clear();
        }
        self.0.extend_from_slice(launch);
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(buffer: u64, start: u64, end: u64, writes: bool) -> Touch {
        Touch {
            buffer,
            start,
            end,
            writes,
        }
    }

    #[test]
    fn launch_waits_on_overlapping_writes() {
        let (read, write) = (false, true);
        let mut pending = Pending::default();
        // two branches that read one input
        assert!(!pending.follows(&[touch(1, 0, 64, read), touch(2, 0, 64, write)]));
        assert!(!pending.follows(&[touch(1, 0, 64, read), touch(2, 64, 128, write)]));
        // their sum
        assert!(pending.follows(&[
            touch(2, 0, 64, read),
            touch(2, 64, 128, read),
            touch(3, 0, 64, write)
        ]));
        // memory that is used again while it is read
        assert!(pending.follows(&[touch(1, 0, 8, read), touch(2, 100, 104, write)]));
        // behind that barrier nobody reads the sum's operands any more
        assert!(!pending.follows(&[touch(1, 0, 8, read), touch(2, 0, 64, write)]));
        // the same bytes again
        assert!(pending.follows(&[touch(1, 0, 8, read), touch(2, 63, 64, write)]));
        // another buffer
        assert!(!pending.follows(&[touch(4, 63, 64, write)]));
    }
}
