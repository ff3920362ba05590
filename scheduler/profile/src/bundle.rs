//! A bundle: one signed file that ships with an app and holds measurements of a chip family.
//!
//! ```text
//! offset  bytes  what
//!      0     16  "POLYCHIP-BUNDLE\n"
//!     16      4  version of this form, 1 (little endian, as all numbers)
//!     20      4  length of the manifest, at most 64 KiB
//!     24      8  length of the content, at most 256 MiB
//!     32     32  public key of the signer
//!     64         the manifest, JSON: family, version, share of devices, BLAKE3 of the content
//!                the content, JSON: a profile and the best plan of each model
//!            64  Ed25519 signature (RFC 8032) of all bytes before it
//! ```
//!
//! Invariants:
//! 1. No JSON of a file is parsed before its signature by a trusted key is verified, and nothing is
//!    used before the whole file is checked: [`Bundle::open`] returns the whole bundle, or a
//!    [`BundleError`] that names the reason.
//! 2. A version below the last loaded one is refused, and so is the same version with other
//!    contents ([`Trust::loaded`]). A rollback must be allowed explicitly
//!    ([`Trust::allow_rollback`]).
//! 3. A hash of family and device, but not of the version, determines which devices a rollout
//!    includes first. A device that has a bundle therefore also gets the next versions while the
//!    share grows.
//!
//! Not here: what goes into a bundle (`apps/farm/results`), the source of files, and storage of the
//! last loaded version ([`crate::Profile::load_bundle`]).

mod content;
mod error;
mod key;
mod trust;

pub use content::{BestPlan, Content, Manifest, PlanPart, Sustained};
pub use error::{BundleError, BundleErrorKind};
pub use key::{PublicKey, SecretKey};
pub use trust::{Loaded, Trust};

use error::BundleError as Error;

/// The first bytes of the file.
pub const MAGIC: &[u8; 16] = b"POLYCHIP-BUNDLE\n";
/// Version of the form.
const FORMAT: u32 = 1;
/// Bytes before the manifest.
const PREFIX: usize = 64;
/// Bytes of the signature.
const SIGNATURE: usize = 64;
/// Most bytes of a manifest and of a content.
const MOST: (usize, usize) = (64 << 10, 256 << 20);

/// A bundle with a valid signature, version and content.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundle {
    /// Its manifest.
    pub manifest: Manifest,
    /// Its content.
    pub content: Content,
    /// The signer's key.
    pub signer: PublicKey,
}

impl Bundle {
    /// Maximum size of a file in bytes.
    pub const LONGEST: u64 = (PREFIX + MOST.0 + MOST.1 + SIGNATURE) as u64;

    /// Whether the bytes start with [`MAGIC`], the first bytes of every bundle.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// It is not a bundle, is truncated, was changed, has no trusted signature, is for another
    /// family, is older than the loaded version, or is not rolled out to this device yet.
    pub fn open(bytes: &[u8], trust: &Trust) -> Result<Bundle, BundleError> {
        let frame = Frame::read(bytes)?;
        let signer = PublicKey::from_bytes(frame.key);
        trust.check_signature(&signer, frame.signed, frame.signature)?;
        let manifest: Manifest = serde_json::from_slice(frame.manifest)
            .map_err(|error| Error::contents(format!("its manifest: {error}")))?;
        let digest = *blake3::hash(frame.content).as_bytes();
        if crate::hex(&digest) != manifest.content_blake3 {
            return Err(Error::contents(
                "the content is not the one that the manifest names",
            ));
        }
        manifest.check()?;
        trust.check_manifest(&manifest, &digest)?;
        let content: Content = serde_json::from_slice(frame.content)
            .map_err(|error| Error::contents(format!("its content: {error}")))?;
        content.profile.check().map_err(Error::contents)?;
        Ok(Bundle {
            manifest,
            content,
            signer,
        })
    }

    /// Signs a content and returns the file. The manifest's digest is replaced by that of the
    /// content.
    ///
    /// # Errors
    /// The content contradicts itself or is too large, or the manifest has no family, no version,
    /// or a share above 1000 ‰.
    pub fn sign(content: &Content, manifest: &Manifest, key: &SecretKey) -> Result<Vec<u8>, BundleError> {
        content.profile.check().map_err(Error::contents)?;
        manifest.check()?;
        let json = |error: serde_json::Error| Error::contents(error);
        let content = serde_json::to_vec(content).map_err(json)?;
        let manifest = Manifest {
            content_blake3: crate::hex(blake3::hash(&content).as_bytes()),
            ..manifest.clone()
        };
        let manifest = serde_json::to_vec(&manifest).map_err(json)?;
        if manifest.len() > MOST.0 || content.len() > MOST.1 {
            return Err(Error::contents(format!(
                "{} bytes of content and {} of the manifest; at most {} and {} are read",
                content.len(),
                manifest.len(),
                MOST.1,
                MOST.0
            )));
        }
        let mut bytes = Vec::with_capacity(PREFIX + manifest.len() + content.len() + SIGNATURE);
        bytes.extend(MAGIC);
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend((manifest.len() as u32).to_le_bytes());
        bytes.extend((content.len() as u64).to_le_bytes());
        bytes.extend(key.public().to_bytes());
        bytes.extend(manifest);
        bytes.extend(content);
        let signature = key.sign(&bytes);
        bytes.extend(signature);
        Ok(bytes)
    }
}

/// A file taken apart; nothing of it is believed yet.
struct Frame<'a> {
    key: [u8; 32],
    manifest: &'a [u8],
    content: &'a [u8],
    signed: &'a [u8],
    signature: [u8; SIGNATURE],
}

impl<'a> Frame<'a> {
    fn read(bytes: &'a [u8]) -> Result<Frame<'a>, BundleError> {
        if !Bundle::is_one(bytes) {
            return Err(if MAGIC.starts_with(bytes) {
                Error::truncated(bytes.len(), PREFIX)
            } else {
                Error::not_a_bundle()
            });
        }
        let short = || Error::truncated(bytes.len(), PREFIX);
        let format = u32::from_le_bytes(array(bytes, 16).ok_or_else(short)?);
        if format != FORMAT {
            return Err(Error::format(format, FORMAT));
        }
        let manifest = u32::from_le_bytes(array(bytes, 20).ok_or_else(short)?) as usize;
        let content = u64::from_le_bytes(array(bytes, 24).ok_or_else(short)?);
        let key = array(bytes, 32).ok_or_else(short)?;
        let content = usize::try_from(content).ok().filter(|length| *length <= MOST.1);
        let (true, Some(content)) = (manifest <= MOST.0, content) else {
            return Err(Error::contents("its lengths are beyond what a bundle may have"));
        };
        let whole = PREFIX + manifest + content + SIGNATURE;
        if bytes.len() < whole {
            return Err(Error::truncated(bytes.len(), whole));
        }
        if bytes.len() > whole {
            return Err(Error::contents(format!(
                "{} bytes follow its end",
                bytes.len() - whole
            )));
        }
        let (signed, _) = bytes.split_at(whole - SIGNATURE);
        Ok(Frame {
            key,
            manifest: &bytes[PREFIX..PREFIX + manifest],
            content: &bytes[PREFIX + manifest..whole - SIGNATURE],
            signed,
            signature: array(bytes, whole - SIGNATURE).ok_or_else(short)?,
        })
    }
}

/// A range of bytes from an offset on.
fn array<const N: usize>(bytes: &[u8], from: usize) -> Option<[u8; N]> {
    bytes.get(from..from + N)?.try_into().ok()
}

#[cfg(test)]
mod tests;
