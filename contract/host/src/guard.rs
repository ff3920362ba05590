//! Guard bytes around host memory, for debugging plugins that write outside their tensors.
//!
//! Invariants:
//! 1. Memory made while guards are on lies between two ranges of at least a page with a known pattern.
//! 2. A range that was overwritten is reported once, and then has the pattern again.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapRaw;

use crate::page_size::page_bytes;

/// The pattern: a NaN as f32, and an unlikely text, index or image.
const PATTERN: u8 = 0xFB;

static ON: AtomicBool = AtomicBool::new(false);

/// Puts guard bytes around all host memory that this process makes from now on, and checks them at
/// the end of each run.
pub fn guard_buffers() {
    ON.store(true, Ordering::Release);
}

/// Whether [`guard_buffers`] was called.
#[must_use]
pub fn buffers_are_guarded() -> bool {
    ON.load(Ordering::Acquire)
}

/// The guarded ranges of a mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard {
    /// Bytes in front of the memory: whole pages.
    pub(crate) before: u64,
    /// Bytes of the memory.
    pub(crate) bytes: u64,
    /// Bytes behind the memory.
    behind: u64,
}

impl Guard {
    /// Guards around `bytes` bytes, if guards are on and the sizes fit.
    pub(crate) fn around(bytes: u64) -> Option<Guard> {
        if !buffers_are_guarded() {
            return None;
        }
        let page = page_bytes();
        let end = bytes.checked_next_multiple_of(page)?.checked_add(page)?;
        end.checked_add(page)?;
        Some(Guard {
            before: page,
            bytes,
            behind: end - bytes,
        })
    }

    /// Bytes of the mapping.
    pub(crate) fn whole(&self) -> u64 {
        self.before + self.bytes + self.behind
    }

    /// Writes the pattern into a mapping of [`Guard::whole`] bytes, whose guards hold nothing yet.
    pub(crate) fn fill(&self, mapping: &MmapRaw) {
        assert!(
            mapping.len() as u64 >= self.whole(),
            "invariant: the mapping holds its guards"
        );
        let base = mapping.as_mut_ptr();
        let behind = (self.before + self.bytes) as usize;
        // SAFETY: inside the mapping, checked above; nothing refers to the guards.
        unsafe {
            base.write_bytes(PATTERN, self.before as usize);
            base.add(behind).write_bytes(PATTERN, self.behind as usize);
        }
    }

    /// What was overwritten in a mapping that was filled, as text; then writes the pattern again.
    pub(crate) fn damage(&self, mapping: &MmapRaw) -> Option<String> {
        assert!(
            mapping.len() as u64 >= self.whole(),
            "invariant: the mapping holds its guards"
        );
        let base = mapping.as_mut_ptr();
        let start = (self.before + self.bytes) as usize;
        // SAFETY: inside the mapping, checked above. A plugin that still writes there is the fault that is
        // looked for; any bits are bytes.
        let (before, behind) = unsafe {
            (
                std::slice::from_raw_parts(base.cast_const(), self.before as usize),
                std::slice::from_raw_parts(base.add(start).cast_const(), self.behind as usize),
            )
        };
        let changed = |guard: &[u8]| {
            let first = guard.iter().position(|byte| *byte != PATTERN)?;
            let count = guard.iter().filter(|byte| **byte != PATTERN).count();
            Some((first, count))
        };
        let bytes = |count: usize| format!("{count} byte{}", if count == 1 { "" } else { "s" });
        let words = match (changed(before), changed(behind)) {
            (None, None) => return None,
            (_, Some((first, count))) => format!(
                "wrote {} behind the end of {{}} of {} bytes, the first one at byte {}",
                bytes(count),
                self.bytes,
                self.bytes + first as u64
            ),
            (Some((first, count)), None) => format!(
                "wrote {} in front of {{}} of {} bytes, the first one {} bytes before it",
                bytes(count),
                self.bytes,
                self.before - first as u64
            ),
        };
        self.fill(mapping);
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_overwritten_guard_is_reported_once() {
        let guard = Guard {
            before: 16,
            bytes: 8,
            behind: 32,
        };
        let mapping = MmapRaw::from(memmap2::MmapMut::map_anon(guard.whole() as usize).unwrap());
        let base = mapping.as_mut_ptr();
        guard.fill(&mapping);
        let damage = || guard.damage(&mapping);
        assert_eq!(damage(), None);
        // SAFETY: inside the mapping.
        unsafe { base.add(24).write_bytes(1, 4) };
        let words = damage().unwrap();
        assert_eq!(
            words,
            "wrote 4 bytes behind the end of {} of 8 bytes, the first one at byte 8"
        );
        assert_eq!(damage(), None);
        // SAFETY: inside the mapping.
        unsafe { base.add(15).write(1) };
        assert!(damage().unwrap().contains("1 byte in front of {}"));
    }
}
