//! Files of emulated compilers: a magic number, the ONNX model, and a description in JSON; or a
//! magic number and a network with its hash.
//!
//! Layout: the vendor's four letters, `EMU1`, number of bytes of the model (u64, little-endian),
//! the model, the description.

use serde::{Serialize, de::DeserializeOwned};

/// Magic number of a file: the vendor's letters, then `EMU1`.
pub type Magic = [u8; 8];

const HEAD: usize = size_of::<Magic>() + size_of::<u64>();

/// A file's parts.
pub struct Parts<D> {
    /// The ONNX model.
    pub model: Vec<u8>,
    /// The description at the end.
    pub description: D,
}

/// Makes a file.
///
/// # Errors
/// JSON cannot express the description.
pub fn write(magic: &Magic, model: &[u8], description: &impl Serialize) -> Result<Vec<u8>, String> {
    let tail = serde_json::to_vec(description).map_err(|error| error.to_string())?;
    Ok([magic, &(model.len() as u64).to_le_bytes()[..], model, &tail].concat())
}

/// Returns the parts of a file; `None` if the file has another format.
#[must_use]
pub fn read<D: DeserializeOwned>(wanted: &Magic, bytes: &[u8]) -> Option<Parts<D>> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (magic, length) = head.split_at(wanted.len());
    let length = u64::from_le_bytes(length.try_into().ok()?);
    let (model, tail) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    if magic != wanted {
        return None;
    }
    Some(Parts {
        model: model.to_vec(),
        description: serde_json::from_slice(tail).ok()?,
    })
}

/// A network with its hash, behind a vendor's mark; none where it cannot be written.
#[must_use]
pub fn seal(mark: &[u8; 16], network: &impl Serialize) -> Option<Vec<u8>> {
    let body = postcard::to_stdvec(network).ok()?;
    Some([mark, blake3::hash(&body).as_bytes().as_slice(), &body].concat())
}

/// The network of [`seal`]'s bytes; none where a bit of them differs.
#[must_use]
pub fn unseal<N: DeserializeOwned>(mark: &[u8; 16], bytes: &[u8]) -> Option<N> {
    let (hash, body) = bytes.strip_prefix(mark)?.split_first_chunk::<32>()?;
    (blake3::hash(body).as_bytes() == hash)
        .then(|| postcard::from_bytes(body).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_round_trips_and_truncated_file_is_refused() {
        let magic = b"TESTEMU1";
        let file = write(magic, b"model", &vec!["chip", "mark"]).unwrap();
        let parts = read::<Vec<String>>(magic, &file).unwrap();
        assert_eq!(
            (&parts.model[..], &*parts.description[1]),
            (&b"model"[..], "mark")
        );
        assert!(read::<Vec<String>>(b"ELSEEMU1", &file).is_none());
        for cut in 0..file.len() {
            assert!(read::<Vec<String>>(magic, &file[..cut]).is_none(), "{cut}");
        }
    }
}
