//! A bundle: arbitrary bytes, and an arbitrary manifest and content with a right digest and a trusted signature.
//!
//! Invariants: it is refused, or its parts agree with each other; an accepted bundle loads into a profile, whose rows
//! can be listed, predicted from and exported. Not here: forged signatures (unit tests of `bundle`).

#![no_main]

use ed25519_dalek::{Signer as _, SigningKey};
use libfuzzer_sys::fuzz_target;
use polychip_profile::Profile;
use polychip_profile::bundle::{Bundle, MAGIC, SecretKey, Trust};

const KEY: [u8; 32] = [7; 32];
const FORMAT: u32 = 1;

fuzz_target!(|input: &[u8]| {
    let trust = Trust::new()
        .key(SecretKey::from_bytes(&KEY).public())
        .family("family");
    let _refused = Bundle::open(input, &trust);
    // both are JSON, which has no byte 0
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let (manifest, content) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let bytes = signed(manifest, content);
    if Bundle::open(&bytes, &trust).is_err() {
        return;
    }
    let profile = Profile::in_memory();
    let Ok(_bundle) = profile.load_bundle(&bytes, &trust) else {
        return;
    };
    let _parts = profile
        .parts()
        .expect("the rows of an accepted bundle are listed");
    let _predictions = profile.predictions();
    let exported = profile.export().expect("what was accepted is exported");
    Profile::in_memory()
        .import(&exported, "again")
        .expect("what was exported is imported");
});

/// The two texts as a bundle, with the digest of the content in the manifest.
fn signed(manifest: &[u8], content: &[u8]) -> Vec<u8> {
    let mut manifest = manifest.to_vec();
    if let Ok(mut fields) = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&manifest) {
        fields.insert(
            "content_blake3".into(),
            blake3::hash(content).to_hex().as_str().into(),
        );
        manifest = serde_json::to_vec(&fields).expect("a map of values");
    }
    let key = SigningKey::from_bytes(&KEY);
    let mut bytes = MAGIC.to_vec();
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend((manifest.len() as u32).to_le_bytes());
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend(key.verifying_key().to_bytes());
    bytes.extend(manifest);
    bytes.extend(content);
    let signature = key.sign(&bytes);
    bytes.extend(signature.to_bytes());
    bytes
}
