//! Memory of the runtime, as the CPU and the chip see it.
//!
//! On an incoherent board the chip has its own view of memory: a copy, one per file, even if a file
//! is imported several times. Only cache maintenance synchronises it with the CPU's bytes. A view
//! begins with stale bytes.
//!
//! Invariants:
//! 1. A view lives as long as any memory of its file.
//! 2. Ranges are checked when the memory is made. The CPU's bytes are valid as long as the caller's
//!    mapping.

#![allow(unsafe_code, reason = "the caller's mappings are read and written here")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;

use crate::board;

/// The bytes of a view before the first write.
const STALE: u8 = 0xa5;

/// Identity of a file, the same for all of its descriptors.
type Key = (u64, u64);

enum Place {
    /// The runtime's own.
    Own { bytes: Box<[u8]>, view: Vec<u8> },
    /// A range of a file that the caller has mapped.
    File { address: usize, key: Key, offset: usize },
}

/// Memory that the runtime knows.
pub(crate) struct Memory {
    /// Whose it is.
    pub(crate) context: u64,
    place: Place,
    pub(crate) size: usize,
}

struct View {
    bytes: Vec<u8>,
    users: usize,
}

/// The chip's views of files.
pub(crate) struct Views(BTreeMap<Key, View>);

impl Views {
    pub(crate) const fn new() -> Views {
        Views(BTreeMap::new())
    }
}

impl Memory {
    /// Memory of the runtime's own.
    pub(crate) fn own(context: u64, size: usize) -> Memory {
        Memory {
            context,
            place: Place::Own {
                bytes: vec![0; size].into(),
                view: vec![STALE; if board::is_incoherent() { size } else { 0 }],
            },
            size,
        }
    }

    /// A range of a file; `None` if the descriptor is invalid.
    pub(crate) fn of_file(
        context: u64,
        fd: i32,
        address: usize,
        size: usize,
        offset: usize,
        views: &mut Views,
    ) -> Option<Memory> {
        if fd < 0 || address == 0 {
            return None;
        }
        // SAFETY: open during this call, as the caller of the runtime promises.
        let file = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().ok()?;
        let about = File::from(file).metadata().ok()?;
        let end = offset.checked_add(size)?;
        // a dma-buf may not say its length
        if about.len() > 0 && end as u64 > about.len() {
            return None;
        }
        let key = (about.dev(), about.ino());
        let view = views.0.entry(key).or_insert(View {
            bytes: Vec::new(),
            users: 0,
        });
        view.users += 1;
        if board::is_incoherent() && view.bytes.len() < end {
            view.bytes.resize(end, STALE);
        }
        Some(Memory {
            context,
            place: Place::File {
                address: address.checked_add(offset)?,
                key,
                offset,
            },
            size,
        })
    }

    /// Lets go of it.
    pub(crate) fn end(self, views: &mut Views) {
        if let Place::File { key, .. } = self.place
            && let Some(view) = views.0.get_mut(&key)
        {
            view.users -= 1;
            if view.users == 0 {
                views.0.remove(&key);
            }
        }
    }

    /// Where the processor sees it.
    pub(crate) fn address(&self) -> usize {
        match &self.place {
            Place::Own { bytes, .. } => bytes.as_ptr().expose_provenance(),
            Place::File { address, .. } => *address,
        }
    }

    /// The processor's bytes.
    fn seen(&self) -> Vec<u8> {
        let from = std::ptr::with_exposed_provenance::<u8>(self.address());
        let mut bytes = vec![0; self.size];
        // SAFETY: our own, or mapped by the caller, who keeps it during the call.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), self.size) };
        bytes
    }

    fn show(&self, bytes: &[u8]) {
        let to = std::ptr::with_exposed_provenance_mut::<u8>(self.address());
        // SAFETY: as above; the runtime's caller writes there at no other time.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len().min(self.size)) };
    }

    /// The chip's view, if it is separate.
    fn view<'a>(&'a mut self, views: &'a mut Views) -> Option<&'a mut [u8]> {
        if !board::is_incoherent() {
            return None;
        }
        match &mut self.place {
            Place::Own { view, .. } if view.len() < self.size => None,
            Place::Own { view, .. } => Some(view),
            Place::File { key, offset, .. } => {
                views.0.get_mut(key)?.bytes.get_mut(*offset..*offset + self.size)
            }
        }
    }

    /// Copies the CPU's bytes to the chip's view.
    pub(crate) fn flush(&mut self, views: &mut Views) {
        let bytes = self.seen();
        if let Some(view) = self.view(views) {
            view.copy_from_slice(&bytes);
        }
    }

    /// Copies the chip's view to the CPU's bytes.
    pub(crate) fn invalidate(&mut self, views: &mut Views) {
        if let Some(view) = self.view(views) {
            let bytes = view.to_vec();
            self.show(&bytes);
        }
    }

    /// Reads as the chip does.
    pub(crate) fn read(&mut self, views: &mut Views) -> Vec<u8> {
        match self.view(views) {
            Some(view) => view.to_vec(),
            None => self.seen(),
        }
    }

    /// Writes as the chip does.
    pub(crate) fn write(&mut self, bytes: &[u8], views: &mut Views) {
        match self.view(views) {
            Some(view) => {
                let count = bytes.len().min(view.len());
                view[..count].copy_from_slice(&bytes[..count]);
            }
            None => self.show(bytes),
        }
    }
}
