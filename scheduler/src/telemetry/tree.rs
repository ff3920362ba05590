//! The location of a sensor file tree: a folder, or a program that provides it.
//!
//! Not here: which files exist, and their meaning (`files`).

use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sensor files that a program provides, with `sys` and `proc` as under `/`: for an emulated
/// device, or a replayed recording.
pub trait SensorFiles: Debug + Send + Sync {
    /// What a file holds; paths start at the root and have no `/` before them.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read: as a folder would say.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Whether there is such a file, readable or not.
    fn is_there(&self, path: &Path) -> bool;

    /// The names of what a folder holds; none where there is no such folder.
    fn names(&self, folder: &Path) -> Vec<String>;
}

#[derive(Debug, Clone)]
pub(super) enum Tree {
    Folder(PathBuf),
    Made(Arc<dyn SensorFiles>),
}

impl Tree {
    pub(super) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self {
            Tree::Folder(root) => fs::read(root.join(path)),
            Tree::Made(files) => files.read(path),
        }
    }

    pub(super) fn is_there(&self, path: &Path) -> bool {
        match self {
            Tree::Folder(root) => root.join(path).exists(),
            Tree::Made(files) => files.is_there(path),
        }
    }

    /// In no order.
    pub(super) fn names(&self, folder: &Path) -> Vec<String> {
        match self {
            Tree::Folder(root) => fs::read_dir(root.join(folder))
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect(),
            Tree::Made(files) => files.names(folder),
        }
    }
}
