//! The files of the model that ONNX Runtime read: constants are used from there, so that they are not in memory beside
//! the packed weights.
//!
//! Invariant: a constant is taken from a file only if the file holds the same bytes as ONNX Runtime: an optimiser or the
//! app may have replaced it. The bytes are compared, unless ONNX Runtime itself uses them in that file.
//!
//! Not here: constants that no file holds, which are copied (`read`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use polychip::ModelFolder;
use polychip_graph::onnx::messages::{EXTERNAL, Graph, Model, Tensor};

/// Constants below this size are copied, in bytes.
const LEAST: usize = 4096;

/// Bytes that are compared at a time: a quarter of a usual second-level cache.
const BLOCK: usize = 256 << 10;

/// Files in which constants lie.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) folder: Arc<ModelFolder>,
    /// Name and content: first the model itself, without a name, then those beside it.
    pub(crate) mapped: Arc<[(String, Bytes)]>,
}

/// A model's files with the places of its constants.
#[derive(Debug)]
pub(crate) struct Source {
    files: Files,
    /// By name: bodies may use a name again.
    places: BTreeMap<String, Vec<Place>>,
}

/// Where a constant lies.
#[derive(Debug)]
struct Place {
    /// Index of the file.
    file: usize,
    offset: usize,
    bytes: usize,
}

impl Files {
    /// A model file without others beside it.
    pub(crate) fn alone(folder: ModelFolder) -> Files {
        let mapped = [(String::new(), folder.bytes())];
        Files {
            folder: Arc::new(folder),
            mapped: Arc::new(mapped),
        }
    }

    /// Reads bytes of a file without touching its mapping.
    fn read(&self, file: usize, offset: usize, out: &mut [u8]) -> std::io::Result<()> {
        match &*self.mapped[file].0 {
            "" => self.folder.read_at(offset, out),
            name => self.folder.read_external_at(name, offset, out),
        }
    }
}

impl Source {
    /// Maps a model and lists its constants; `None` if it is not an ONNX file.
    pub(crate) fn open(path: &Path) -> Option<Source> {
        // a pipe has been read by ONNX Runtime: to open it waits for another writer
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let folder = ModelFolder::open(path).ok()?;
        // a file of the system, which is read and not mapped
        if folder.descriptors(&[String::new()]).contains(&NO_FD) {
            return None;
        }
        let whole = folder.bytes();
        let model = Model::from_bytes(whole.clone()).ok()?;
        let mut listing = Listing {
            folder: &folder,
            mapped: vec![(String::new(), whole)],
            by_name: BTreeMap::new(),
            places: BTreeMap::new(),
        };
        listing.graph(model.graph.as_ref()?);
        let (mapped, places) = (listing.mapped.into(), listing.places);
        Some(Source {
            files: Files {
                folder: Arc::new(folder),
                mapped,
            },
            places,
        })
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// The bytes of a constant of this name, in a file, if they equal those of ONNX Runtime.
    pub(crate) fn find(&self, name: &str, wanted: &[u8]) -> Option<Bytes> {
        let places = self.places.get(name)?;
        let place = places.iter().find(|place| self.holds(place, wanted))?;
        let bytes = &self.files.mapped[place.file].1;
        Some(bytes.slice(place.offset..place.offset + place.bytes))
    }

    /// The bytes of a constant that ONNX Runtime has in a file beside the model.
    pub(crate) fn beside(&self, (location, offset, bytes): (&Path, i64, usize)) -> Option<Bytes> {
        let mut mapped = self.files.mapped.iter().skip(1);
        let (_, file) = mapped.find(|(name, _)| Path::new(name) == location)?;
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(bytes).filter(|end| *end <= file.len())?;
        (bytes >= LEAST).then(|| file.slice(start..end))
    }

    fn holds(&self, place: &Place, wanted: &[u8]) -> bool {
        if place.bytes != wanted.len() {
            return false;
        }
        let mut block = vec![0; BLOCK.min(wanted.len())];
        let mut offset = place.offset;
        wanted.chunks(BLOCK).all(|wanted| {
            let block = &mut block[..wanted.len()];
            let is_same = self.files.read(place.file, offset, block).is_ok() && block == wanted;
            offset += wanted.len();
            is_same
        })
    }
}

/// The descriptor of bytes that are not a file.
const NO_FD: i64 = -1;

/// Collects the places of a model's constants.
struct Listing<'a> {
    folder: &'a ModelFolder,
    mapped: Vec<(String, Bytes)>,
    /// Indices of the files beside the model; `None` for one that cannot be opened.
    by_name: BTreeMap<String, Option<usize>>,
    places: BTreeMap<String, Vec<Place>>,
}

impl Listing<'_> {
    fn graph(&mut self, graph: &Graph) {
        for tensor in &graph.initializer {
            self.tensor(&tensor.name, tensor);
        }
        for node in &graph.node {
            for attribute in &node.attribute {
                if let Some(body) = &attribute.g {
                    self.graph(body);
                }
                // ONNX Runtime makes constants of these nodes
                if let (Some(tensor), Some(name), "Constant") =
                    (&attribute.t, node.output.first(), &*node.op_type)
                {
                    self.tensor(name, tensor);
                }
            }
        }
    }

    fn tensor(&mut self, name: &str, tensor: &Tensor) {
        let place = if tensor.data_location == EXTERNAL {
            self.beside(tensor)
        } else {
            tensor.raw_data.as_ref().and_then(|raw| {
                let offset = raw
                    .as_ptr()
                    .addr()
                    .checked_sub(self.mapped[0].1.as_ptr().addr())?;
                Some(Place {
                    file: 0,
                    offset,
                    bytes: raw.len(),
                })
            })
        };
        let inside = |place: &Place| {
            let end = place.offset.checked_add(place.bytes);
            place.bytes >= LEAST && end.is_some_and(|end| end <= self.mapped[place.file].1.len())
        };
        if let Some(place) = place.filter(inside) {
            self.places.entry(name.to_owned()).or_default().push(place);
        }
    }

    /// The place of a constant in a file beside the model.
    fn beside(&mut self, tensor: &Tensor) -> Option<Place> {
        let value = |key: &str| {
            let mut pairs = tensor.external_data.iter();
            pairs.find(|pair| pair.key == key).map(|pair| pair.value.as_str())
        };
        let location = value("location").filter(|location| !location.is_empty())?;
        let offset = value("offset").map_or(Some(0), |offset| offset.parse().ok())?;
        let file = match self.by_name.get(location) {
            Some(file) => (*file)?,
            None => {
                let opened = self.folder.open_external(location).ok().map(|bytes| {
                    self.mapped.push((location.to_owned(), bytes));
                    self.mapped.len() - 1
                });
                self.by_name.insert(location.to_owned(), opened);
                opened?
            }
        };
        let rest = self.mapped[file].1.len().checked_sub(offset)?;
        let bytes = value("length").map_or(Some(rest), |length| length.parse().ok())?;
        Some(Place { file, offset, bytes })
    }
}

#[cfg(test)]
mod tests {
    use polychip_graph::onnx::messages::StringPair;

    use super::*;

    fn tensor(name: &str, bytes: &[u8]) -> Tensor {
        Tensor {
            name: name.to_owned(),
            raw_data: Some(Bytes::copy_from_slice(bytes)),
            ..Tensor::default()
        }
    }

    fn external(name: &str, pairs: &[(&str, &str)]) -> Tensor {
        let pair = |(key, value): &(&str, &str)| StringPair {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        Tensor {
            name: name.to_owned(),
            data_location: EXTERNAL,
            external_data: pairs.iter().map(pair).collect(),
            ..Tensor::default()
        }
    }

    #[test]
    fn constants_are_found_in_files_by_name_and_content() {
        let folder = tempfile::tempdir().unwrap();
        let (large, other) = (vec![7u8; LEAST], vec![8u8; LEAST + 3]);
        std::fs::write(folder.path().join("w.bin"), [&large[..], &other].concat()).unwrap();
        let model = Model {
            graph: Some(Graph {
                initializer: vec![
                    tensor("inside", &large),
                    tensor("small", &[1, 2]),
                    external("beside", &[("location", "w.bin"), ("offset", &LEAST.to_string())]),
                    external("absent", &[("location", "none.bin")]),
                    external(
                        "far",
                        &[("location", "w.bin"), ("offset", "99999999"), ("length", "5000")],
                    ),
                    external(
                        "long",
                        &[("location", "w.bin"), ("length", "18446744073709551615")],
                    ),
                ],
                ..Graph::default()
            }),
            ..Model::default()
        };
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, model.to_bytes()).unwrap();
        let source = Source::open(&path).unwrap();
        let inside = source.find("inside", &large).unwrap();
        assert_eq!(inside, large);
        let whole = &source.files().mapped[0].1;
        assert!(whole.as_ptr_range().contains(&inside.as_ptr()), "it was copied");
        assert_eq!(source.find("beside", &other).unwrap(), other);
        let offset = LEAST as i64;
        let beside = |name: &str, offset, bytes| source.beside((Path::new(name), offset, bytes));
        assert_eq!(beside("w.bin", offset, LEAST + 3).unwrap(), other);
        for (name, offset, bytes) in [
            ("", 0, LEAST),
            ("none.bin", 0, LEAST),
            ("w.bin", 0, 3),
            ("w.bin", -1, LEAST),
            ("w.bin", offset, LEAST + 4),
            ("w.bin", offset, usize::MAX),
        ] {
            assert!(beside(name, offset, bytes).is_none(), "{name} {offset} {bytes}");
        }
        // replaced by an optimiser or the app
        assert!(source.find("inside", &vec![9; LEAST]).is_none());
        assert!(source.find("inside", &other).is_none());
        for name in ["small", "absent", "far", "long", "unknown"] {
            assert!(source.find(name, &large).is_none(), "{name}");
        }
        std::fs::write(&path, b"no model").unwrap();
        assert!(Source::open(&path).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        assert!(Source::open(&path).is_none());
    }
}
