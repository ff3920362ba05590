//! The forms in which a tensor exists: its layout, and what its elements are.
//!
//! Not here: how one form is made of another (each plugin's `lower`).

use crate::Layout;

/// What the elements of a tensor are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Storage {
    /// What an op sees.
    Real,
    /// What an op sees, rounded to bf16.
    Bf16,
    /// Unsigned bytes that stand for what an op sees, whatever type the tensor has at a port.
    Codes,
    /// Integers of the tensor's own type, with its encoding.
    Stored,
}

/// The forms in which a tensor exists so far, each with the value that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forms<V> {
    values: [Option<V>; 8],
}

impl<V> Default for Forms<V> {
    fn default() -> Forms<V> {
        Forms {
            values: [const { None }; 8],
        }
    }
}

fn place(layout: Layout, storage: Storage) -> usize {
    storage as usize * 2 + layout as usize
}

impl<V: Copy> Forms<V> {
    /// The value that holds a form.
    pub fn get(&self, layout: Layout, storage: Storage) -> Option<V> {
        self.values[place(layout, storage)]
    }

    /// States that a value holds a form.
    pub fn set(&mut self, layout: Layout, storage: Storage, value: V) {
        self.values[place(layout, storage)] = Some(value);
    }

    /// Forgets a form, which holds no longer what the tensor is.
    pub fn forget(&mut self, layout: Layout, storage: Storage) {
        self.values[place(layout, storage)] = None;
    }

    /// Whether it exists in a layout, whatever its elements are.
    pub fn exists(&self, layout: Layout) -> bool {
        let all = [Storage::Real, Storage::Bf16, Storage::Codes, Storage::Stored];
        all.iter().any(|&storage| self.get(layout, storage).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_a_place_of_its_own() {
        let layouts = [Layout::RowMajor, Layout::ChannelsLast];
        let storages = [Storage::Real, Storage::Bf16, Storage::Codes, Storage::Stored];
        let mut forms = Forms::default();
        for (i, layout) in layouts.into_iter().enumerate() {
            assert!(!forms.exists(layout));
            for (j, storage) in storages.into_iter().enumerate() {
                forms.set(layout, storage, (i, j));
            }
        }
        for (i, layout) in layouts.into_iter().enumerate() {
            for (j, storage) in storages.into_iter().enumerate() {
                assert_eq!(forms.get(layout, storage), Some((i, j)));
            }
        }
        forms.forget(Layout::RowMajor, Storage::Bf16);
        assert_eq!(forms.get(Layout::RowMajor, Storage::Bf16), None);
        assert!(forms.exists(Layout::RowMajor));
    }
}
