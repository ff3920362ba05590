//! The typed attributes of ops, one struct per set of attributes: several ops share one where theirs mean the same.
//!
//! A field reads `name: type = Attribute`. A type without `Option` is required or has a default in the op table.
//!
//! Invariant: no default is written here.
//! Not here: which op has which struct (`operator`), what the ops compute (`cpu_kernels::reference`).

/// Structs whose fields are decoded attributes.
macro_rules! attributes {
    ($(
        $(#[$meta:meta])*
        $name:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty = $attr:ident),* $(,)? }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, PartialEq, Debug)]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $ty,)*
            }

            impl $name {
                pub(in crate::operator) fn read(reader: &Reader<'_>) -> Result<$name> {
                    Ok($name {
                        $($field: <$ty as Field>::read(reader, Attr::$attr)?,)*
                    })
                }
            }
        )*
    };
}

mod compute;
mod image;
mod movement;
mod sequence;

pub use compute::*;
pub use image::*;
pub use movement::*;
pub use sequence::*;
