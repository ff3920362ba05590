//! Limits on a file's contents. Larger files are refused before memory is allocated for them.

/// Most key-value pairs of a file. The largest files of llama.cpp's converter have fewer than a
/// hundred.
pub const MAX_KEYS: u64 = 1 << 16;
/// Most tensors of a file. The largest known models have about two thousand.
pub const MAX_TENSORS: u64 = 1 << 16;
/// Most bytes of a key, by the format's specification.
pub const MAX_KEY_BYTES: u64 = (1 << 16) - 1;
/// Most bytes of a tensor's name, by the format's specification.
pub const MAX_NAME_BYTES: u64 = 64;
/// Most dimensions of a tensor, by the format's specification.
pub const MAX_DIMS: u32 = 4;
/// Largest accepted alignment of tensors: 1 MiB.
pub const MAX_ALIGNMENT: u32 = 1 << 20;
