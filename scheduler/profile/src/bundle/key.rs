//! Signing keys: Ed25519 (RFC 8032).

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::{hex, unhex};

/// The public key of a signer: 32 bytes, written as 64 hexadecimal digits.
///
/// ```
/// let text = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
/// let key: polychip_profile::bundle::PublicKey = text.parse().unwrap();
/// assert_eq!(key.to_string(), text);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// The private key of a signer: 32 random bytes, written as 64 hexadecimal digits; `Debug` does not
/// show it.
#[derive(Clone)]
pub struct SecretKey(SigningKey);

impl PublicKey {
    /// Makes a key from its 32 bytes. The bytes are not checked; an invalid key verifies no
    /// signature.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> PublicKey {
        PublicKey(bytes)
    }

    /// Returns the 32 bytes of the key.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 32] {
        self.0
    }

    /// Whether `signature` is this key's signature of `message`. Rejects weak keys, and signatures that
    /// would also be valid for other messages.
    pub(super) fn signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let key = VerifyingKey::from_bytes(&self.0);
        key.is_ok_and(|key| {
            key.verify_strict(message, &Signature::from_bytes(signature))
                .is_ok()
        })
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl FromStr for PublicKey {
    type Err = String;

    /// # Errors
    /// The text is not 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<PublicKey, String> {
        bytes(text).map(PublicKey)
    }
}

impl SecretKey {
    /// Makes a key from 32 random bytes, which must come from a cryptographically secure source.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> SecretKey {
        SecretKey(SigningKey::from_bytes(bytes))
    }

    /// Returns the matching public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Returns the 32 bytes of the key. Keep them secret.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public())
    }
}

impl FromStr for SecretKey {
    type Err = String;

    /// # Errors
    /// The text is not 64 hexadecimal digits. The message does not quote the text, which may be a
    /// secret.
    fn from_str(text: &str) -> Result<SecretKey, String> {
        let bytes = bytes(text).map_err(|_| "a secret key is 64 hexadecimal digits".to_owned())?;
        Ok(SecretKey::from_bytes(&bytes))
    }
}

fn bytes(text: &str) -> Result<[u8; 32], String> {
    let bytes = unhex(text).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| format!("invalid key {text:?}; expected 64 hexadecimal digits"))
}
