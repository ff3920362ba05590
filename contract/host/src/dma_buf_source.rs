//! Sources of dma-bufs on this machine, and which of them this process may open.
//!
//! Not here: the calls that allocate dma-bufs (`dma_buf`).

/// A source of dma-bufs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaBufSource {
    /// `/dev/udmabuf`, from the pages of an anonymous file: such memory is also a memory file.
    Udmabuf,
    /// `/dev/dma_heap/system`, from the system's pages, cached.
    Heap,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl DmaBufSource {
    /// Opens the source.
    pub(crate) fn open(self) -> rustix::io::Result<std::os::fd::OwnedFd> {
        use rustix::fs::{Mode, OFlags};
        let path = match self {
            DmaBufSource::Udmabuf => "/dev/udmabuf",
            DmaBufSource::Heap => "/dev/dma_heap/system",
        };
        rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    }
}

impl DmaBufSource {
    /// Sources that this process may use, in the order in which [`Memory::dma_buf`] tries them:
    /// first the one that serves more devices.
    ///
    /// [`Memory::dma_buf`]: crate::Memory::dma_buf
    #[must_use]
    pub fn available() -> &'static [DmaBufSource] {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            static SOURCES: std::sync::OnceLock<Vec<DmaBufSource>> = std::sync::OnceLock::new();
            SOURCES.get_or_init(|| {
                let known = [DmaBufSource::Udmabuf, DmaBufSource::Heap];
                known.into_iter().filter(|source| source.open().is_ok()).collect()
            })
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            &[]
        }
    }
}
