//! The reasons for refusing a bundle.

use super::key::PublicKey;

/// Why a bundle is refused; nothing of it was used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BundleError(#[from] Cause);

/// The reason for refusing a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BundleErrorKind {
    /// The file is not a bundle.
    NotABundle,
    /// It ends too early.
    Truncated,
    /// It has a format that this build does not read.
    Format,
    /// No trusted key signed it.
    UntrustedKey,
    /// It was changed after signing.
    BadSignature,
    /// Its signed content contradicts itself.
    BadContents,
    /// It is for other chips.
    OtherFamily,
    /// A newer version was loaded before.
    Downgraded,
    /// The same version was loaded before with other contents.
    Replaced,
    /// It is not rolled out to this device yet.
    NotYet,
    /// It cannot be read or stored.
    Io,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("not a bundle: it does not begin as one")]
    NotABundle,
    #[error("the bundle is truncated: {bytes} of at least {whole} bytes")]
    Truncated { bytes: usize, whole: usize },
    #[error("the bundle has format {found}; this build reads format {read}")]
    Format { found: u32, read: u32 },
    #[error("the bundle is signed by {0}, which is not trusted (Runtime::builder().trust)")]
    UntrustedKey(PublicKey),
    #[error("the bundle was changed after it was signed by {0}: its signature is invalid")]
    BadSignature(PublicKey),
    #[error("the bundle contradicts itself: {0}")]
    BadContents(String),
    #[error("the bundle is for family {found:?}, expected {wanted:?}")]
    OtherFamily { found: String, wanted: String },
    #[error(
        "the bundle has version {version}, but version {loaded} was loaded before; allow the rollback (Builder::allow_rollback)"
    )]
    Downgraded { version: u64, loaded: u64 },
    #[error(
        "version {version} of the bundle was loaded before with other contents; give changed contents a new version"
    )]
    Replaced { version: u64 },
    #[error(
        "version {version} of the bundle is rolled out to {permille} of 1000 devices, and not to this one"
    )]
    NotYet { version: u64, permille: u32 },
    #[error("{0}")]
    Io(String),
}

impl BundleError {
    pub(super) fn not_a_bundle() -> Self {
        Cause::NotABundle.into()
    }

    pub(super) fn truncated(bytes: usize, whole: usize) -> Self {
        Cause::Truncated { bytes, whole }.into()
    }

    pub(super) fn format(found: u32, read: u32) -> Self {
        Cause::Format { found, read }.into()
    }

    pub(super) fn untrusted(key: PublicKey) -> Self {
        Cause::UntrustedKey(key).into()
    }

    pub(super) fn bad_signature(key: PublicKey) -> Self {
        Cause::BadSignature(key).into()
    }

    pub(super) fn contents(words: impl ToString) -> Self {
        Cause::BadContents(words.to_string()).into()
    }

    pub(super) fn family(found: &str, wanted: &str) -> Self {
        let (found, wanted) = (found.to_owned(), wanted.to_owned());
        Cause::OtherFamily { found, wanted }.into()
    }

    pub(super) fn downgraded(version: u64, loaded: u64) -> Self {
        Cause::Downgraded { version, loaded }.into()
    }

    pub(super) fn replaced(version: u64) -> Self {
        Cause::Replaced { version }.into()
    }

    pub(super) fn not_yet(version: u64, permille: u32) -> Self {
        Cause::NotYet { version, permille }.into()
    }

    /// A file that cannot be read.
    #[must_use]
    pub fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Self {
        BundleError::io(format!("{}: {error}", path.display()))
    }

    pub(crate) fn io(words: impl ToString) -> Self {
        Cause::Io(words.to_string()).into()
    }

    /// The reason.
    #[must_use]
    pub fn kind(&self) -> BundleErrorKind {
        match &self.0 {
            Cause::NotABundle => BundleErrorKind::NotABundle,
            Cause::Truncated { .. } => BundleErrorKind::Truncated,
            Cause::Format { .. } => BundleErrorKind::Format,
            Cause::UntrustedKey(_) => BundleErrorKind::UntrustedKey,
            Cause::BadSignature(_) => BundleErrorKind::BadSignature,
            Cause::BadContents(_) => BundleErrorKind::BadContents,
            Cause::OtherFamily { .. } => BundleErrorKind::OtherFamily,
            Cause::Downgraded { .. } => BundleErrorKind::Downgraded,
            Cause::Replaced { .. } => BundleErrorKind::Replaced,
            Cause::NotYet { .. } => BundleErrorKind::NotYet,
            Cause::Io(_) => BundleErrorKind::Io,
        }
    }
}
