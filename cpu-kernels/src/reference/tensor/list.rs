//! Lists of tensors that pass as a vector of bytes: sequences, held by reference until something reads their bytes.
//!
//! Invariants:
//! 1. The bytes are as many as the list says, whether they were made yet or not.
//! 2. A list knows no form of bytes; its maker gives the function that makes them.
//!
//! Not here: the form of the bytes, ops on sequences (`reference`'s `sequence`).

use std::sync::{Arc, OnceLock};

use super::{Storage, Tensor};

/// Makes the bytes of a list of tensors.
pub type Pack = fn(&[Arc<Tensor>]) -> Vec<u8>;

/// Tensors by reference.
#[derive(Debug, Clone)]
pub struct List {
    /// The tensors, in order.
    pub tensors: Vec<Arc<Tensor>>,
    /// The bytes that `pack` makes of them.
    pub byte_len: usize,
    /// The function that makes their bytes.
    pub pack: Pack,
}

/// The elements of a tensor, which its clones share.
#[derive(Debug, Clone)]
pub(super) enum Data {
    Elements(Arc<Storage>),
    List(Arc<Listed>),
}

/// A list with its bytes, once they are made.
#[derive(Debug)]
pub(super) struct Listed {
    list: List,
    bytes: OnceLock<Storage>,
}

impl Data {
    pub(super) fn of_list(list: List) -> Self {
        Self::List(Arc::new(Listed {
            list,
            bytes: OnceLock::new(),
        }))
    }

    /// The elements.
    pub(super) fn storage(&self) -> &Storage {
        match self {
            Self::Elements(storage) => storage,
            Self::List(listed) => listed
                .bytes
                .get_or_init(|| Storage::U8((listed.list.pack)(&listed.list.tensors))),
        }
    }

    /// The elements to write; clones keep what they have.
    pub(super) fn storage_mut(&mut self) -> &mut Storage {
        if let Self::List(_) = self {
            *self = Self::Elements(Arc::new(self.storage().clone()));
        }
        let Self::Elements(storage) = self else {
            unreachable!("invariant: a list became bytes above");
        };
        Arc::make_mut(storage)
    }

    /// The elements, owned: without a copy where no clone has them.
    pub(super) fn into_storage(self) -> Storage {
        match self {
            Self::Elements(storage) => Arc::unwrap_or_clone(storage),
            Self::List(_) => self.storage().clone(),
        }
    }

    pub(super) fn list(&self) -> Option<&List> {
        match self {
            Self::Elements(_) => None,
            Self::List(listed) => Some(&listed.list),
        }
    }

    /// The list, owned: without a copy where no clone has it.
    pub(super) fn into_list(self) -> Option<List> {
        match self {
            Self::Elements(_) => None,
            Self::List(listed) => Some(match Arc::try_unwrap(listed) {
                Ok(listed) => listed.list,
                Err(shared) => shared.list.clone(),
            }),
        }
    }
}

impl Tensor {
    /// The bytes of a list, which are made when something reads them.
    #[must_use]
    pub fn from_list(list: List) -> Self {
        Self {
            shape: vec![list.byte_len],
            data: Data::of_list(list),
        }
    }

    /// The list whose bytes these are, if the tensor was made of one.
    #[must_use]
    pub fn list(&self) -> Option<&List> {
        self.data.list()
    }

    /// As [`list`](Self::list), owned: without a copy where no clone has it.
    #[must_use]
    pub fn into_list(self) -> Option<List> {
        self.data.into_list()
    }
}
