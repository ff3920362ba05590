//! Extensible structs: default values with `struct_size` already set.
//!
//! Invariant: `sized()` is the only way our own code makes an extensible struct, so no size is forgotten.
//! Not here: reading a struct of another size, which needs unsafe code (`contract/host`, `contract/sdk`).

/// An extensible struct of the contract: its first field is `struct_size: u32`.
pub trait Sized: Default {
    /// Returns the default value with `struct_size` set to the struct's size in this build. All other
    /// fields are zero; pointers are null and calls absent.
    fn sized() -> Self;
}

/// Implements [`Sized`] for structs whose first field is `struct_size`.
macro_rules! sized {
    ($($name:ty),+ $(,)?) => {$(
        impl crate::sized::Sized for $name {
            fn sized() -> Self {
                Self { struct_size: size_of::<Self>() as u32, ..Self::default() }
            }
        }
    )+};
}
pub(crate) use sized;
