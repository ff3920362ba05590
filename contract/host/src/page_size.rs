//! The system's page size.

/// Alignment of mapped memory, in bytes.
pub(crate) fn page_bytes() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        rustix::param::page_size() as u64
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        // the smallest page size among supported systems
        4096
    }
}
