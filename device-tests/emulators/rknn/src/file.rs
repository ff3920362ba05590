//! Files of the emulated toolkit: the vendor's mark, the ONNX model, and a description in JSON at the end.
//!
//! Layout: `RKNN`, `EMU1`, bytes of the model as u64 (little-endian), the model, the description.

use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"RKNNEMU1";
const HEAD: usize = MAGIC.len() + size_of::<u64>();

/// What stands at the end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) target_platform: String,
    pub(crate) version: String,
    pub(crate) custom_string: String,
}

/// A file's parts.
pub(crate) struct Parts {
    pub(crate) model: Vec<u8>,
    pub(crate) description: Description,
}

/// A file.
pub(crate) fn write(model: &[u8], description: &Description) -> Result<Vec<u8>, String> {
    let tail = serde_json::to_vec(description).map_err(|error| error.to_string())?;
    Ok([MAGIC, &(model.len() as u64).to_le_bytes()[..], model, &tail].concat())
}

/// The parts of a file; none where it is none of ours.
pub(crate) fn read(bytes: &[u8]) -> Option<Parts> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (magic, length) = head.split_at(MAGIC.len());
    let length = u64::from_le_bytes(length.try_into().ok()?);
    let (model, tail) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    if magic != MAGIC {
        return None;
    }
    Some(Parts {
        model: model.to_vec(),
        description: serde_json::from_slice(tail).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_and_a_torn_one_does_not() {
        let description = Description {
            target_platform: "rk3588".into(),
            version: "1".into(),
            custom_string: "mark".into(),
        };
        let file = write(b"model", &description).unwrap();
        let parts = read(&file).unwrap();
        assert_eq!(
            (&parts.model[..], &*parts.description.custom_string),
            (&b"model"[..], "mark")
        );
        for cut in 0..file.len() {
            assert!(read(&file[..cut]).is_none(), "{cut}");
        }
    }
}
