//! An input as changes of single bytes of a valid file: the place as u16, then the byte.

/// The file with the changes that lie inside it.
pub(crate) fn patched(valid: &[u8], patches: &[u8]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for patch in patches.as_chunks::<3>().0 {
        let place = usize::from(u16::from_le_bytes([patch[0], patch[1]]));
        if let Some(byte) = bytes.get_mut(place) {
            *byte = patch[2];
        }
    }
    bytes
}
