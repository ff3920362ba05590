//! Typed indices into a plan's lists.
//!
//! Invariant: an index is written as a bare number, in files and in text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(u32);

        impl $name {
            /// Makes the index.
            ///
            /// # Panics
            /// The index does not fit 32 bits.
            #[must_use]
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("invariant: lists of a plan are counted in 32 bits"))
            }

            /// The position in the list.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index!(
    /// Place of a device in a plan's list of devices.
    DeviceIndex
);
index!(
    /// Place of a part in a plan's list of parts.
    PartIndex
);
