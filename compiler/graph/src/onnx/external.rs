//! Weights in files beside the model.
//!
//! Invariants:
//! 1. A location that could leave the model's folder is refused before anything is opened.
//! 2. A file is opened once, whatever the number of tensors in it.
//!
//! Not here: the opener (`contract/host` maps files; it also refuses links that leave the folder).

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;

use super::content;
use crate::{Error, FileSlice};

/// Opens the files that a model refers to.
pub trait ExternalData {
    /// The whole content of the file at `location`, a path relative to the model's folder that was
    /// checked to stay in it by name. The memory should be mapped, not read.
    ///
    /// # Errors
    /// Whatever the system says, or a refusal of a link that leaves the folder.
    fn open(&self, location: &str) -> io::Result<Bytes>;
}

/// For models that have no external data: every location is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExternalData;

impl ExternalData for NoExternalData {
    fn open(&self, _location: &str) -> io::Result<Bytes> {
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the model was given without its folder",
        ))
    }
}

/// The files of one model, opened as they are needed.
pub(crate) struct Files<'a> {
    opener: &'a dyn ExternalData,
    /// The model itself, then files in which raw data may lie, by index.
    mapped: Vec<Bytes>,
    open: BTreeMap<String, (u32, Bytes)>,
    /// Locations in the order of opening; the model itself first.
    names: Vec<String>,
    /// By location: the tensor that is the whole file, and its bytes, if the model places only one tensor in it.
    whole: BTreeMap<String, Option<(String, u64)>>,
    /// Some tensors of the model were not read.
    is_partial: bool,
}

impl<'a> Files<'a> {
    pub(crate) fn new(model: Bytes, opener: &'a dyn ExternalData) -> Files<'a> {
        Files {
            opener,
            mapped: vec![model],
            open: BTreeMap::new(),
            names: vec![String::new()],
            whole: BTreeMap::new(),
            is_partial: false,
        }
    }

    /// Files that are mapped already, by name; the first one is the model itself. Raw data of the messages lie in them.
    pub(crate) fn over(mapped: &[(String, Bytes)]) -> Files<'static> {
        Files {
            mapped: mapped.iter().map(|(_, bytes)| bytes.clone()).collect(),
            names: mapped.iter().map(|(name, _)| name.clone()).collect(),
            ..Files::new(Bytes::new(), &NoExternalData)
        }
    }

    /// A tensor of the model is not read, so what else a file holds is not known.
    pub(crate) fn skip(&mut self) {
        self.is_partial = true;
    }

    /// The names of the files.
    ///
    /// # Errors
    /// One tensor alone is in a file, to its end, and the file is longer than the tensor.
    pub(crate) fn into_names(self) -> Result<Vec<String>, Error> {
        for (location, whole) in self.whole.iter().filter(|_| !self.is_partial) {
            let size = self.open[location].1.len() as u64;
            if let Some((tensor, expected)) = whole
                && *expected != size
            {
                return Err(Error::external(
                    format!(
                        "tensor \"{tensor}\": external data file \"{location}\" has {size} bytes, but the tensor needs {expected}"
                    ),
                    None,
                ));
            }
        }
        Ok(self.names)
    }

    /// The content of a tensor of so many bytes, which the model puts at `offset` of a file, of `length` bytes or, where that
    /// is not said, to the end.
    pub(crate) fn tensor(
        &mut self,
        tensor: &str,
        location: &str,
        offset: u64,
        length: Option<u64>,
        expected: u64,
    ) -> Result<(u32, Bytes), Error> {
        let found = self.slice(tensor, location, offset, length.or(Some(expected)))?;
        let whole = (length.is_none() && offset == 0).then(|| (tensor.to_owned(), expected));
        // two tensors in a file: neither is the whole file
        let first = !self.whole.contains_key(location);
        self.whole.insert(location.to_owned(), whole.filter(|_| first));
        Ok(found)
    }

    /// The place of a slice in the model's own bytes or in a mapped file, if it lies there.
    pub(crate) fn place(&self, slice: &Bytes) -> Option<FileSlice> {
        let mut mapped = self.mapped.iter().enumerate();
        mapped.find_map(|(file, bytes)| {
            let offset = slice.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
            let end = offset.checked_add(slice.len())?;
            let file = u32::try_from(file).ok()?;
            let offset = (end <= bytes.len()).then_some(offset as u64)?;
            Some(FileSlice { file, offset })
        })
    }

    /// `length` bytes (to the end of the file if not given) from `offset` of the file at `location`.
    pub(crate) fn slice(
        &mut self,
        tensor: &str,
        location: &str,
        offset: u64,
        length: Option<u64>,
    ) -> Result<(u32, Bytes), Error> {
        check_location(tensor, location)?;
        if !self.open.contains_key(location) {
            let bytes = self.opener.open(location).map_err(|source| {
                // an error of the system: the folder was searched
                let absent = source.kind() == std::io::ErrorKind::NotFound && source.raw_os_error().is_some();
                let remedy = if absent {
                    "; copy it to the model's folder"
                } else {
                    ""
                };
                Error::external(
                    format!(
                        "tensor \"{tensor}\": external data file \"{location}\" cannot be opened: \
                         {source}{remedy}"
                    ),
                    Some(source),
                )
            })?;
            if let Some(what) = content::of(&bytes).filter(|what| what.is_certain) {
                return Err(Error::external(
                    format!(
                        "tensor \"{tensor}\": external data file \"{location}\" is {}, not weights: {}",
                        what.words, what.remedy
                    ),
                    None,
                ));
            }
            let index = u32::try_from(self.names.len()).expect("invariant: fewer than 2^32 files");
            self.names.push(location.to_owned());
            self.open.insert(location.to_owned(), (index, bytes));
        }
        let (index, bytes) = &self.open[location];
        let size = bytes.len() as u64;
        let end = match length {
            Some(length) => offset.checked_add(length),
            None => Some(size.max(offset)),
        };
        match end {
            Some(end) if end <= size => Ok((*index, bytes.slice(offset as usize..end as usize))),
            _ => {
                let what = content::of(bytes).map(|what| format!("; it is {}: {}", what.words, what.remedy));
                Err(Error::external(
                    format!(
                        "tensor \"{tensor}\": external data at {offset}, {} bytes, reaches beyond file \
                         \"{location}\" of {size} bytes{}",
                        length.map_or_else(|| "all".to_owned(), |length| length.to_string()),
                        what.unwrap_or_default()
                    ),
                    None,
                ))
            }
        }
    }
}

/// Refuses locations that are not plain paths below the model's folder.
fn check_location(tensor: &str, location: &str) -> Result<(), Error> {
    let drive = location.as_bytes().get(1) == Some(&b':');
    let absolute = location.starts_with(['/', '\\']) || drive;
    let climbs = location.split(['/', '\\']).any(|part| part == "..");
    let why = if location.is_empty() {
        "is empty"
    } else if location.contains('\0') {
        "contains a zero byte"
    } else if absolute {
        "is absolute"
    } else if climbs {
        "leaves the model's folder"
    } else {
        return Ok(());
    };
    let message = format!(
        "tensor \"{tensor}\": external data location \"{}\" {why}",
        location.escape_default()
    );
    Err(Error::external(message, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl ExternalData for One {
        fn open(&self, location: &str) -> io::Result<Bytes> {
            if location == "sub/w.bin" {
                Ok(Bytes::from(vec![1, 2, 3, 4]))
            } else {
                Err(io::Error::from(io::ErrorKind::NotFound))
            }
        }
    }

    #[test]
    fn paths_out_of_the_folder_are_refused() {
        let mut files = Files::new(Bytes::new(), &One);
        for (location, why) in [
            ("", "is empty"),
            ("/etc/passwd", "is absolute"),
            ("\\\\server\\share", "is absolute"),
            ("c:\\w.bin", "is absolute"),
            ("../w.bin", "leaves the model's folder"),
            ("sub/../../w.bin", "leaves the model's folder"),
            ("sub\\..\\..\\w.bin", "leaves the model's folder"),
            ("w\0.bin", "contains a zero byte"),
        ] {
            let error = files.slice("w", location, 0, None).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::ExternalData);
            assert!(error.to_string().ends_with(why), "{error}");
        }
    }

    #[test]
    fn ranges_are_checked() {
        let mut files = Files::new(Bytes::new(), &One);
        assert_eq!(&files.slice("w", "sub/w.bin", 1, Some(2)).unwrap().1[..], [2, 3]);
        assert_eq!(&files.slice("w", "sub/w.bin", 3, None).unwrap().1[..], [4]);
        assert_eq!(files.slice("w", "sub/w.bin", 4, Some(0)).unwrap().0, 1);
        for (offset, length) in [(3, Some(2)), (5, None), (u64::MAX, Some(2)), (5, Some(0))] {
            let error = files.slice("w", "sub/w.bin", offset, length).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("reaches beyond file \"sub/w.bin\" of 4 bytes"),
                "{error}"
            );
        }
        let error = files.slice("w", "none.bin", 0, None).unwrap_err();
        assert!(
            error.to_string().contains("\"none.bin\" cannot be opened"),
            "{error}"
        );
        assert_eq!(files.into_names().unwrap(), ["", "sub/w.bin"]);
    }
}
