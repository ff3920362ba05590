//! The C library's heap, whose free pages may go back to the system.

#![allow(unsafe_code)]

/// Gives free pages of the heap back to the system. With glibc only, which keeps them for later
/// allocations; other C libraries return them by themselves. May take some milliseconds.
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            /// `malloc.h` of glibc, since version 2.0.
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: the function is thread-safe, takes the number of bytes to keep, and frees no allocation.
        unsafe { malloc_trim(0) };
    }
}
