//! Where a tree of sensors' files lies: in a folder, or in a program that makes it.
//!
//! Not here: which files there are, and what they say (`files`).

use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of sensors that a program makes, with `sys` and `proc` as under `/`: of an emulated device, or of a record that
/// is played.
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
