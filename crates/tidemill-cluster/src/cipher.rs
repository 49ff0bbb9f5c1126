//! Sealed frames: AES-256-GCM with a counter as the nonce, one key for each direction.
//!
//! ```text
//! frame n:  sealed head 24 │ tag 16 │ sealed body │ tag 16     (no second tag without a body)
//! nonce:    n u64 │ 0 for the head, 1 for the body u32
//! key:      of the connection, the direction and n / 65,536
//! ```
//!
//! The counter is not sent. Both sides count, so a frame opens at its own place of its own direction
//! of its own connection, and nowhere else. The head has a tag of its own: a length is believed
//! before the body is there.
//!
//! Invariant: no nonce is used twice with a key, because the counter only grows.

use crate::key::{ConnectionSecret, ConnectionSide};
use ring::aead::{Aad, LessSafeKey, Nonce, Tag};
use tidemill_wire::cluster::{ClusterDecodeError, ClusterFrameHead, FRAME_HEAD_BYTES};

/// Bytes of a tag: AES-GCM.
pub(crate) const SEAL_BYTES: usize = 16;
/// Bytes of a sealed head.
pub(crate) const SEALED_HEAD_BYTES: usize = FRAME_HEAD_BYTES + SEAL_BYTES;

/// Frames that one key seals. With the largest bodies that is 2^38 blocks, and AES-GCM is good for
/// far more (RFC 5288 and NIST SP 800-38D bound the blocks of a message, not of a key; Luykx and
/// Paterson, "Limits on Authenticated Encryption Use in TLS", bound both).
const FRAMES_OF_KEY: u64 = 1 << 16;

/// A frame that did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameDamage {
    /// The tag is not that of these bytes at this place.
    #[error("a frame was changed, replayed, cut short or reordered")]
    Tag,
    /// The bytes are genuine and have no meaning for this build.
    #[error("a frame has no meaning: {0}")]
    Meaning(#[from] ClusterDecodeError),
    /// The body is over the limit.
    #[error("a body of {bytes} bytes is over the limit of {bytes_max}")]
    TooLarge {
        /// Bytes of the body.
        bytes: u32,
        /// The limit.
        bytes_max: u32,
    },
    /// A frame that this side never gets.
    #[error("a frame of this type is not for this side")]
    Direction,
}

/// One direction of a connection: its key, and the number of its next frame.
#[derive(Debug)]
struct FrameCounter {
    secret: ConnectionSecret,
    sender: ConnectionSide,
    key: LessSafeKey,
    next: u64,
}

impl FrameCounter {
    fn new(secret: &ConnectionSecret, sender: ConnectionSide) -> Self {
        let key = secret.frame_key(sender, 0);
        Self { secret: secret.clone(), sender, key, next: 0 }
    }

    /// The number of the next frame, which is used up.
    fn advance(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        if number > 0 && number.is_multiple_of(FRAMES_OF_KEY) {
            self.key = self.secret.frame_key(self.sender, number / FRAMES_OF_KEY);
        }
        number
    }
}

fn nonce(number: u64, part: u32) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&part.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Seals the frames of one direction.
#[derive(Debug)]
pub(crate) struct FrameSealer(FrameCounter);

impl FrameSealer {
    pub(crate) fn new(secret: &ConnectionSecret, sender: ConnectionSide) -> Self {
        Self(FrameCounter::new(secret, sender))
    }

    /// Seals a frame: the head as it is sent, the body in its place, the tag that follows it.
    pub(crate) fn seal(
        &mut self,
        head: &ClusterFrameHead,
        body: &mut [u8],
    ) -> ([u8; SEALED_HEAD_BYTES], Option<[u8; SEAL_BYTES]>) {
        let number = self.0.advance();
        let mut plain = head.encode();
        let tag = self.seal_part(nonce(number, 0), &mut plain);
        let mut sealed = [0; SEALED_HEAD_BYTES];
        sealed[..FRAME_HEAD_BYTES].copy_from_slice(&plain);
        sealed[FRAME_HEAD_BYTES..].copy_from_slice(&tag);
        let body_tag = (!body.is_empty()).then(|| self.seal_part(nonce(number, 1), body));
        (sealed, body_tag)
    }

    fn seal_part(&self, nonce: Nonce, bytes: &mut [u8]) -> [u8; SEAL_BYTES] {
        let sealed = self.0.key.seal_in_place_separate_tag(nonce, Aad::empty(), bytes);
        let tag = sealed.expect("a frame is far below the limit of AES-GCM, 64 GiB");
        let mut out = [0; SEAL_BYTES];
        out.copy_from_slice(tag.as_ref());
        out
    }
}

/// Opens the frames of one direction.
#[derive(Debug)]
pub(crate) struct FrameOpener {
    counter: FrameCounter,
    /// The number of the frame whose head was opened last.
    number: u64,
}

impl FrameOpener {
    pub(crate) fn new(secret: &ConnectionSecret, sender: ConnectionSide) -> Self {
        Self { counter: FrameCounter::new(secret, sender), number: 0 }
    }

    /// Opens the head of the next frame.
    pub(crate) fn open_head(
        &mut self,
        sealed: &[u8; SEALED_HEAD_BYTES],
    ) -> Result<ClusterFrameHead, FrameDamage> {
        self.number = self.counter.advance();
        let (plain, tag) = sealed.split_at(FRAME_HEAD_BYTES);
        let mut head = [0; FRAME_HEAD_BYTES];
        head.copy_from_slice(plain);
        self.open_part(nonce(self.number, 0), &mut head, tag)?;
        Ok(ClusterFrameHead::decode(&head)?)
    }

    /// Opens the body of that frame in its place.
    pub(crate) fn open_body(&self, body: &mut [u8], tag: &[u8]) -> Result<(), FrameDamage> {
        self.open_part(nonce(self.number, 1), body, tag)
    }

    fn open_part(&self, nonce: Nonce, bytes: &mut [u8], tag: &[u8]) -> Result<(), FrameDamage> {
        let tag = Tag::try_from(tag).map_err(|_| FrameDamage::Tag)?;
        let key = &self.counter.key;
        let opened = key.open_in_place_separate_tag(nonce, Aad::empty(), tag, bytes, 0..);
        opened.map(|_| ()).map_err(|_| FrameDamage::Tag)
    }
}

#[cfg(test)]
mod tests;
