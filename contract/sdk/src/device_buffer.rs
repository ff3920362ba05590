//! A buffer with two sides. The device uses the host's memory in place; if its driver cannot, the
//! device has memory of its own, and the host has a copy.
//!
//! Invariants:
//! 1. If the device shares memory, the host's bytes are the device's bytes: nothing is copied, here
//!    or in a run.
//! 2. A mirrored buffer is copied in `begin_access` and `end_access`, and in a run that asks for
//!    its bytes because it cannot bind them, and nowhere else.
//! 3. The device's side of a buffer is made once per opening of the device, and is destroyed before
//!    the host's memory.
//! 4. A reset discards what runs wrote and the host did not read: reading it is an error. What the
//!    host wrote remains.
//!
//! Not here: how a driver imports memory ([`Side`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Access, Buffer, Error, ErrorKind, HostBuffer, Memory, MemoryKind, Result};

/// The device's side of a buffer.
pub trait Side: Send + Sync + 'static {
    /// The state of the device between two resets: a reset replaces it.
    type Opening;
    /// The buffer's memory as the device sees it.
    type Piece: Send + Sync;

    /// The open device; `None` if it is lost.
    fn opening(&self) -> Option<Arc<Self::Opening>>;

    /// Number of the opening, unique in the process.
    fn number(opening: &Self::Opening) -> u64;

    /// Allocates memory of the device.
    ///
    /// # Errors
    /// It runs out.
    fn local(&self, opening: &Arc<Self::Opening>, bytes: u64) -> Result<Self::Piece>;

    /// Imports the first `bytes` bytes of host memory, which outlives the result.
    ///
    /// # Errors
    /// `Unsupported` if the driver cannot import this memory.
    fn in_place(&self, opening: &Arc<Self::Opening>, host: &HostBuffer, bytes: u64) -> Result<Self::Piece>;

    /// Reads the first bytes. Blocks until they have arrived.
    ///
    /// # Errors
    /// The device is lost.
    fn read(&self, opening: &Arc<Self::Opening>, piece: &Self::Piece, to: &mut [u8]) -> Result<()>;

    /// Writes the first bytes. Blocks until they have arrived.
    ///
    /// # Errors
    /// The device is lost.
    fn write(&self, opening: &Arc<Self::Opening>, piece: &Self::Piece, from: &[u8]) -> Result<()>;
}

/// A buffer with a host side and a device side. Thread-safe.
pub struct DeviceBuffer<S: Side> {
    /// Size as the host sees it, in bytes.
    bytes: usize,
    /// The device's side, with the number of the opening that it was made for. Declared before the
    /// memory, so that it is dropped first.
    view: Mutex<Option<(u64, Arc<S::Piece>)>>,
    side: S,
    host: HostBuffer,
    /// Bytes from the start that are exclusive to this buffer.
    writable: u64,
    /// Whether the device has memory of its own for it.
    mirrored: bool,
    /// Whether the device wrote to a mirrored buffer since the host read it.
    stale: AtomicBool,
    /// Whether the device's data was lost with its opening and not rewritten since.
    lost: AtomicBool,
    /// Whether the host opened a mirrored buffer for writing.
    written: AtomicBool,
    /// Bytes copied between the two sides that no run has counted yet.
    copied: AtomicU64,
}

impl<S: Side> DeviceBuffer<S> {
    /// Kernels may write a whole vector at the end of memory that the buffer owns. That memory is
    /// therefore rounded up to a multiple of this size, in bytes.
    const ROUND: u64 = 256;

    /// Makes a buffer over the first `bytes` bytes of `host`, which it owns. With `mirrored`, the
    /// device has memory of its own, because it cannot use the host's in place. Allocates all memory
    /// now, so a run cannot run out of it.
    ///
    /// # Errors
    /// The device cannot use the memory.
    pub fn made(side: S, host: HostBuffer, bytes: u64, mirrored: bool) -> Result<DeviceBuffer<S>> {
        Self::over(side, host, bytes, bytes.next_multiple_of(Self::ROUND), mirrored)
    }

    /// Makes a buffer over the host's memory, which the device uses in place.
    ///
    /// # Errors
    /// `Unsupported` if the device cannot use the memory.
    pub fn imported(side: S, memory: &Memory) -> Result<DeviceBuffer<S>> {
        let host = HostBuffer::import(memory)?;
        Self::over(side, host, memory.bytes(), memory.bytes(), false)
    }

    fn over(side: S, host: HostBuffer, bytes: u64, writable: u64, mirrored: bool) -> Result<DeviceBuffer<S>> {
        let bytes = usize::try_from(bytes)
            .map_err(|_| Error::bad_argument("a buffer does not fit the address space"))?;
        let buffer = DeviceBuffer {
            bytes,
            view: Mutex::new(None),
            side,
            host,
            writable,
            mirrored,
            stale: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            written: AtomicBool::new(false),
            copied: AtomicU64::new(0),
        };
        if let Some(opening) = buffer.side.opening() {
            buffer.piece(&opening)?;
        }
        Ok(buffer)
    }

    /// The device's side.
    pub fn side(&self) -> &S {
        &self.side
    }

    /// Bytes from the start that kernels may write to without touching other data.
    pub fn writable(&self) -> u64 {
        self.writable
    }

    /// The buffer's memory for this opening of the device.
    ///
    /// # Errors
    /// The device cannot use the memory, or has none.
    pub fn piece(&self, opening: &Arc<S::Opening>) -> Result<Arc<S::Piece>> {
        let number = S::number(opening);
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, piece)) = view.as_ref().filter(|(of, _)| *of == number) {
            return Ok(Arc::clone(piece));
        }
        let piece = if self.mirrored {
            if self.stale.swap(false, Ordering::AcqRel) {
                self.lost.store(true, Ordering::Release);
            }
            let piece = self.side.local(opening, self.bytes as u64)?;
            self.side.write(opening, &piece, &self.all()?)?;
            piece
        } else {
            self.side.in_place(opening, &self.host, self.bytes as u64)?
        };
        let piece = Arc::new(piece);
        *view = Some((number, Arc::clone(&piece)));
        Ok(piece)
    }

    /// Records that a run writes to the buffer.
    pub fn set_stale(&self) {
        if self.mirrored {
            self.lost.store(false, Ordering::Release);
            self.stale.store(true, Ordering::Release);
        }
    }

    /// Copies a range out, for a run that cannot bind it.
    ///
    /// # Errors
    /// The range exceeds the buffer, or the device is lost.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.refresh()?;
        self.host.copy_out(offset, to)
    }

    /// Copies a range in, for a run that cannot bind it.
    ///
    /// # Errors
    /// The range exceeds the buffer, or the device is lost.
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.refresh_what_is_left()?;
        self.host.copy_in(offset, from)?;
        self.lost.store(false, Ordering::Release);
        self.push()
    }

    fn all(&self) -> Result<Vec<u8>> {
        let mut all = vec![0; self.bytes];
        self.host.copy_out(0, &mut all)?;
        Ok(all)
    }

    /// Copies what the device wrote to the host's side.
    fn refresh(&self) -> Result<()> {
        if self.stale.swap(false, Ordering::AcqRel) {
            self.read_back()
                .inspect_err(|_| self.stale.store(true, Ordering::Release))?;
        }
        if self.lost.load(Ordering::Acquire) {
            return Err(gone());
        }
        Ok(())
    }

    /// As `refresh`, before a write: contents that a reset discarded are then not an error.
    fn refresh_what_is_left(&self) -> Result<()> {
        match self.refresh() {
            Err(error) if error.kind() == ErrorKind::DeviceLost => {
                self.stale.store(false, Ordering::Release);
                self.lost.store(true, Ordering::Release);
                Ok(())
            }
            done => done,
        }
    }

    fn read_back(&self) -> Result<()> {
        let opening = self.side.opening().ok_or_else(gone)?;
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (_, piece) = view
            .filter(|(of, _)| *of == S::number(&opening))
            .ok_or_else(gone)?;
        let mut all = vec![0; self.bytes];
        self.side.read(&opening, &piece, &mut all)?;
        self.copied.fetch_add(self.bytes as u64, Ordering::Relaxed);
        self.host.copy_in(0, &all)
    }

    /// Copies what the host wrote to the device.
    fn push(&self) -> Result<()> {
        let Some(opening) = self.side.opening().filter(|_| self.mirrored) else {
            return Ok(());
        };
        let piece = self.piece(&opening)?;
        self.side.write(&opening, &piece, &self.all()?)?;
        self.copied.fetch_add(self.bytes as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn gone() -> Error {
    Error::new(
        ErrorKind::DeviceLost,
        "the buffer's contents, written by a run, are lost: the device was reset before they were read",
    )
}

impl<S: Side> Buffer for DeviceBuffer<S> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn begin_access(&self, access: Access, offset: usize, bytes: usize) -> Result<*mut u8> {
        if access.read {
            self.refresh()?;
        } else {
            self.refresh_what_is_left()?;
        }
        let data = self.host.begin_access(access, offset, bytes)?;
        if self.mirrored && access.write {
            self.written.store(true, Ordering::Release);
            if !access.read && bytes == self.bytes {
                self.lost.store(false, Ordering::Release);
            }
        }
        Ok(data)
    }

    fn end_access(&self) -> Result<()> {
        if self.written.swap(false, Ordering::AcqRel) {
            self.push()
                .inspect_err(|_| self.written.store(true, Ordering::Release))?;
        }
        self.host.end_access()
    }

    fn take_copied_bytes(&self) -> u64 {
        // a shared buffer is never copied, and needs no write to a word that threads share
        if self.mirrored {
            self.copied.swap(0, Ordering::Relaxed)
        } else {
            0
        }
    }

    fn export(&self, kind: MemoryKind) -> Result<Memory> {
        if self.mirrored {
            // another device would see the copy only
            return Err(Error::unsupported("memory of this device cannot be exported"));
        }
        self.host.export_first(kind, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose memory is a vector.
    struct Far {
        /// Number of its opening.
        opening: AtomicU64,
        /// Copies fail.
        fails: AtomicBool,
    }

    impl Far {
        fn new() -> Far {
            Far {
                opening: AtomicU64::new(1),
                fails: AtomicBool::new(false),
            }
        }

        fn copied(&self) -> Result<()> {
            if self.fails.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Transient, "not now"));
            }
            Ok(())
        }
    }

    impl Side for Far {
        type Opening = u64;
        type Piece = Mutex<Vec<u8>>;

        fn opening(&self) -> Option<Arc<u64>> {
            Some(Arc::new(self.opening.load(Ordering::Relaxed)))
        }

        fn number(opening: &u64) -> u64 {
            *opening
        }

        fn local(&self, _: &Arc<u64>, bytes: u64) -> Result<Mutex<Vec<u8>>> {
            Ok(Mutex::new(vec![0xff; bytes as usize]))
        }

        fn in_place(&self, _: &Arc<u64>, _: &HostBuffer, _: u64) -> Result<Mutex<Vec<u8>>> {
            Err(Error::unsupported("it is far"))
        }

        fn read(&self, _: &Arc<u64>, piece: &Mutex<Vec<u8>>, to: &mut [u8]) -> Result<()> {
            self.copied()?;
            to.copy_from_slice(&piece.lock().unwrap()[..to.len()]);
            Ok(())
        }

        fn write(&self, _: &Arc<u64>, piece: &Mutex<Vec<u8>>, from: &[u8]) -> Result<()> {
            self.copied()?;
            piece.lock().unwrap()[..from.len()].copy_from_slice(from);
            Ok(())
        }
    }

    fn mirrored() -> DeviceBuffer<Far> {
        let host = HostBuffer::create(&Memory::wanted(MemoryKind::Host, 4096, 64)).unwrap();
        DeviceBuffer::made(Far::new(), host, 3, true).unwrap()
    }

    fn seen(buffer: &DeviceBuffer<Far>) -> Result<[u8; 3]> {
        let mut seen = [0; 3];
        buffer.copy_out(0, &mut seen)?;
        Ok(seen)
    }

    fn write(buffer: &DeviceBuffer<Far>, access: Access, bytes: [u8; 3]) -> Result<()> {
        buffer.begin_access(access, 0, 3)?;
        buffer.host.copy_in(0, &bytes)?;
        buffer.end_access()
    }

    const WRITE: Access = Access {
        read: false,
        write: true,
    };

    #[test]
    fn failed_copy_is_repeated_by_the_next_access() {
        let buffer = mirrored();
        let fails = |fails| buffer.side().fails.store(fails, Ordering::Relaxed);
        let piece = buffer.piece(&Arc::new(1)).unwrap();
        *piece.lock().unwrap() = vec![7, 8, 9];
        buffer.set_stale();
        fails(true);
        assert!(seen(&buffer).is_err());
        assert!(seen(&buffer).is_err());
        fails(false);
        assert_eq!(seen(&buffer).unwrap(), [7, 8, 9]);
        buffer.begin_access(Access::BOTH, 0, 3).unwrap();
        buffer.host.copy_in(0, &[1, 2, 3]).unwrap();
        fails(true);
        assert!(buffer.end_access().is_err());
        fails(false);
        buffer.begin_access(Access::READ, 0, 3).unwrap();
        buffer.end_access().unwrap();
        assert_eq!(*piece.lock().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn reset_discards_writes_of_runs_but_not_of_the_host() {
        let buffer = mirrored();
        let reset = |number| buffer.side().opening.store(number, Ordering::Relaxed);
        write(&buffer, WRITE, [1, 2, 3]).unwrap();
        reset(2);
        assert_eq!(seen(&buffer).unwrap(), [1, 2, 3]);
        let piece = buffer.piece(&Arc::new(2)).unwrap();
        *piece.lock().unwrap() = vec![7, 8, 9];
        buffer.set_stale();
        reset(3);
        assert_eq!(seen(&buffer).unwrap_err().kind(), ErrorKind::DeviceLost);
        // a run that binds it again does not bring back what is gone
        buffer.piece(&Arc::new(3)).unwrap();
        assert_eq!(seen(&buffer).unwrap_err().kind(), ErrorKind::DeviceLost);
        // until it is written anew, by a run or by the host
        *buffer.piece(&Arc::new(3)).unwrap().lock().unwrap() = vec![4, 5, 6];
        buffer.set_stale();
        assert_eq!(seen(&buffer).unwrap(), [4, 5, 6]);
        buffer.set_stale();
        reset(4);
        assert!(write(&buffer, Access::BOTH, [0; 3]).is_err());
        write(&buffer, WRITE, [1, 1, 2]).unwrap();
        assert_eq!(seen(&buffer).unwrap(), [1, 1, 2]);
        assert_eq!(*buffer.piece(&Arc::new(4)).unwrap().lock().unwrap(), [1, 1, 2]);
    }

    #[test]
    fn mirrored_buffer_is_copied_only_after_a_write() {
        let host = HostBuffer::create(&Memory::wanted(MemoryKind::Host, 4096, 64)).unwrap();
        let opening = Arc::new(1);
        let buffer = DeviceBuffer::made(Far::new(), host, 3, true).unwrap();
        assert_eq!((buffer.bytes(), buffer.writable()), (3, 256));
        let piece = buffer.piece(&opening).unwrap();
        assert_eq!(*piece.lock().unwrap(), [0, 0, 0]);
        // the host's writes reach the device at the end of the access
        buffer.begin_access(Access::BOTH, 0, 3).unwrap();
        buffer.host.copy_in(0, &[1, 2, 3]).unwrap();
        buffer.end_access().unwrap();
        assert_eq!(*piece.lock().unwrap(), [1, 2, 3]);
        // the device's reach the host at the next one, where a run said so
        *piece.lock().unwrap() = vec![7, 8, 9];
        let mut seen = [0; 3];
        buffer.copy_out(0, &mut seen).unwrap();
        assert_eq!(seen, [1, 2, 3]);
        buffer.set_stale();
        buffer.copy_out(0, &mut seen).unwrap();
        assert_eq!(seen, [7, 8, 9]);
        buffer.copy_in(1, &[5]).unwrap();
        assert_eq!(*piece.lock().unwrap(), [7, 5, 9]);
        // two writes of the host and one read of the device's, each of the whole buffer; counted once
        assert_eq!((buffer.take_copied_bytes(), buffer.take_copied_bytes()), (9, 0));
        // another opening has memory of its own, with the host's bytes
        let again = buffer.piece(&Arc::new(2)).unwrap();
        assert_eq!(*again.lock().unwrap(), [7, 5, 9]);
        assert!(buffer.export(MemoryKind::Host).is_err());
    }

    #[test]
    fn unsuitable_memory_is_refused() {
        let host = HostBuffer::create(&Memory::wanted(MemoryKind::Host, 64, 64)).unwrap();
        let refused = DeviceBuffer::made(Far::new(), host, 3, false).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    }
}
