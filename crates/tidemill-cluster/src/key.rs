//! The shared key of a cluster, and all that is derived from it.
//!
//! ```text
//! bytes of the key file ─ HKDF-Extract ─▶ root ─┬─ "proof" ─▶ HMAC-SHA256 key of both proofs
//!                                               └─ "frames" + transcript ─▶ secret of a connection
//! secret of a connection ─ direction + generation ─▶ AES-256-GCM key of a run of frames
//! ```
//!
//! HKDF is RFC 5869, HMAC is RFC 2104, both with SHA-256. Keys of frames depend on the nonces of
//! both sides, so no two connections and no two directions share one.
//!
//! Invariants: a key is never shown, logged or sent. Tags are compared in constant time.

use ring::{aead, digest, hkdf, hmac};
use std::{collections::BTreeSet, fmt, sync::Arc};
use tidemill_wire::cluster::TAG_BYTES;

/// Fewest bytes of a key.
pub const KEY_BYTES_MIN: usize = 16;
/// Most bytes of a key file.
pub const KEY_BYTES_MAX: usize = 4_096;
/// Fewest different bytes in a key: less is a placeholder, not a secret.
const KEY_VARIETY_MIN: usize = 6;

const SALT: &[u8] = b"tidemill cluster port";
const PROOF: &[u8] = b"proof";
const FRAMES: &[u8] = b"frames";

/// The secret that all nodes of a cluster share.
#[derive(Clone)]
pub struct ClusterKey(Arc<KeyMaterial>);

struct KeyMaterial {
    root: hkdf::Prk,
    proof: hmac::Key,
}

/// Bytes that are no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Too short.
    #[error(
        "the cluster key has {0} bytes, and at least {KEY_BYTES_MIN} are needed: make one with `head -c 32 /dev/urandom | base64 > FILE`, the same file for all nodes"
    )]
    Short(usize),
    /// Too long.
    #[error(
        "the cluster key has {0} bytes, and at most {KEY_BYTES_MAX} are allowed: is it the right file?"
    )]
    Long(usize),
    /// A few bytes, repeated.
    #[error(
        "the cluster key repeats a few characters: make one with `head -c 32 /dev/urandom | base64 > FILE`, the same file for all nodes"
    )]
    Repeats,
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionSide {
    /// The side that opened the connection, and sends requests.
    Caller,
    /// The side that accepted it, and answers.
    Port,
}

impl ConnectionSide {
    /// Keeps tags and keys of the two sides apart: neither can be sent back as the other's.
    fn label(self) -> &'static [u8] {
        match self {
            Self::Caller => b"caller",
            Self::Port => b"port",
        }
    }
}

/// The digest of both hellos, byte for byte.
pub(crate) type Transcript = [u8; 32];

/// The digest of the bytes that both sides have exchanged.
pub(crate) fn transcript(caller_hello: &[u8], port_hello: &[u8]) -> Transcript {
    let mut context = digest::Context::new(&digest::SHA256);
    // Records begin with their length, so no other pair has the same bytes.
    context.update(caller_hello);
    context.update(port_hello);
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}

impl ClusterKey {
    /// The key in a file's bytes. White space at the end does not count, so that an editor's last
    /// line break is no other key.
    ///
    /// # Errors
    /// It is too short, too long, or repeats a few characters.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyError> {
        let secret = bytes.trim_ascii_end();
        if secret.len() < KEY_BYTES_MIN {
            return Err(KeyError::Short(secret.len()));
        }
        if secret.len() > KEY_BYTES_MAX {
            return Err(KeyError::Long(secret.len()));
        }
        if secret.iter().collect::<BTreeSet<_>>().len() < KEY_VARIETY_MIN {
            return Err(KeyError::Repeats);
        }
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(secret);
        let proof = hmac::Key::from(expand(&root, &[PROOF], hmac::HMAC_SHA256));
        Ok(Self(Arc::new(KeyMaterial { root, proof })))
    }

    /// The proof of one side for one handshake. `outcome` is what the port decided; a caller has
    /// none.
    pub(crate) fn proof(
        &self,
        side: ConnectionSide,
        transcript: &Transcript,
        outcome: &[u8],
    ) -> [u8; TAG_BYTES] {
        let tag = hmac::sign(&self.0.proof, &proven(side, transcript, outcome));
        let mut out = [0; TAG_BYTES];
        out.copy_from_slice(tag.as_ref());
        out
    }

    /// True if the other side made this proof with the same key.
    pub(crate) fn verify(
        &self,
        side: ConnectionSide,
        transcript: &Transcript,
        outcome: &[u8],
        tag: &[u8; TAG_BYTES],
    ) -> bool {
        hmac::verify(&self.0.proof, &proven(side, transcript, outcome), tag).is_ok()
    }

    /// The secret that the frames of one connection are sealed with.
    pub(crate) fn connection(&self, transcript: &Transcript) -> ConnectionSecret {
        let okm = [FRAMES, transcript];
        ConnectionSecret(Arc::new(hkdf::Prk::from(expand(&self.0.root, &okm, hkdf::HKDF_SHA256))))
    }
}

/// The bytes that a proof covers.
fn proven(side: ConnectionSide, transcript: &Transcript, outcome: &[u8]) -> Vec<u8> {
    [side.label(), b" proof", transcript, outcome].concat()
}

fn expand<'a, L: hkdf::KeyType>(
    root: &'a hkdf::Prk,
    info: &'a [&'a [u8]],
    length: L,
) -> hkdf::Okm<'a, L> {
    root.expand(info, length).expect("a key is shorter than HKDF's limit of 255 digests")
}

/// The secret of one connection.
#[derive(Clone)]
pub(crate) struct ConnectionSecret(Arc<hkdf::Prk>);

impl ConnectionSecret {
    /// The key of one run of frames of one direction.
    pub(crate) fn frame_key(&self, sender: ConnectionSide, generation: u64) -> aead::LessSafeKey {
        let generation = generation.to_le_bytes();
        let info = [sender.label(), &generation[..]];
        aead::LessSafeKey::new(aead::UnboundKey::from(expand(&self.0, &info, &aead::AES_256_GCM)))
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

impl fmt::Debug for ConnectionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    //! Keys that are refused, and keys that differ.

    use super::*;

    #[test]
    fn refuses_keys_that_are_no_secret() {
        let error = |bytes: &[u8]| ClusterKey::parse(bytes).expect_err("it is no key");
        assert_eq!(error(b"short"), KeyError::Short(5));
        assert_eq!(error(b"fifteen-letters\n\n\n"), KeyError::Short(15));
        assert_eq!(error(&[0; 32]), KeyError::Repeats);
        assert_eq!(error(&[7; KEY_BYTES_MAX + 1]), KeyError::Long(KEY_BYTES_MAX + 1));
        assert!(error(b"short").to_string().contains("/dev/urandom"));
    }

    #[test]
    fn debug_shows_nothing_of_a_key() {
        let key = ClusterKey::parse(b"correct horse battery staple").expect("it is a key");
        assert_eq!(format!("{key:?}"), "ClusterKey(..)");
    }

    #[test]
    fn a_line_break_at_the_end_is_no_other_key() {
        let proof = |bytes: &[u8]| {
            let key = ClusterKey::parse(bytes).expect("it is a key");
            key.proof(ConnectionSide::Caller, &[1; 32], &[])
        };
        assert_eq!(proof(b"correct horse battery"), proof(b"correct horse battery\r\n"));
        assert_ne!(proof(b"correct horse battery"), proof(b"correct horse batterz"));
    }

    #[test]
    fn the_proof_of_one_side_is_not_that_of_the_other() {
        let key = ClusterKey::parse(b"correct horse battery").expect("it is a key");
        let tag = key.proof(ConnectionSide::Caller, &[1; 32], &[]);
        assert!(key.verify(ConnectionSide::Caller, &[1; 32], &[], &tag));
        assert!(!key.verify(ConnectionSide::Port, &[1; 32], &[], &tag));
        assert!(!key.verify(ConnectionSide::Caller, &[2; 32], &[], &tag));
        assert!(!key.verify(ConnectionSide::Caller, &[1; 32], &[0], &tag));
    }
}
