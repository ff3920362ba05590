//! The crate's one error: parameters that no kernel can be planned for.
//!
//! Plans check parameters that come from a model and return this error; `run` functions only assert what the
//! caller can see beforehand (slice lengths), because a wrong length there is the caller's bug.

/// Why a kernel could not be planned.
#[derive(Debug)]
pub struct Error(Repr);

/// The class of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A parameter has a value outside its range.
    Parameter,
    /// A size does not fit the address space.
    TooLarge,
}

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error("{kernel}: {name} is {value}, but {rule}")]
    Parameter {
        kernel: &'static str,
        name: &'static str,
        value: usize,
        rule: &'static str,
    },
    #[error("{kernel}: the size of {name} does not fit the address space")]
    TooLarge {
        kernel: &'static str,
        name: &'static str,
    },
}

impl Error {
    pub(crate) fn parameter(
        kernel: &'static str,
        name: &'static str,
        value: usize,
        rule: &'static str,
    ) -> Self {
        Self(Repr::Parameter {
            kernel,
            name,
            value,
            rule,
        })
    }

    pub(crate) fn too_large(kernel: &'static str, name: &'static str) -> Self {
        Self(Repr::TooLarge { kernel, name })
    }

    /// The class of this error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.0 {
            Repr::Parameter { .. } => ErrorKind::Parameter,
            Repr::TooLarge { .. } => ErrorKind::TooLarge,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

/// `a * b` for sizes that come from a model.
pub(crate) fn product(kernel: &'static str, name: &'static str, sizes: &[usize]) -> Result<usize, Error> {
    sizes
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(size))
        .filter(|&product| product <= isize::MAX as usize / 8)
        .ok_or_else(|| Error::too_large(kernel, name))
}
