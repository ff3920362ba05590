//! FNV-1a of 128 bits (Fowler, Noll, Vo; draft-eastlake-fnv): short, and without a crate that build
//! scripts would compile separately. It distinguishes builds and is not a security measure.

/// The offset basis and the prime of 128 bits.
const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// A hash in the making.
pub(crate) struct Hash(u128);

impl Hash {
    pub(crate) fn new() -> Hash {
        Hash(BASIS)
    }

    /// Adds bytes, with how many there are: what follows is not taken for their end.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Sixteen hexadecimal digits: both halves folded.
    pub(crate) fn finish(&self) -> String {
        let folded = (self.0 >> 64) as u64 ^ self.0 as u64;
        format!("{folded:016x}")
    }
}
