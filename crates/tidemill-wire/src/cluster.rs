//! The cluster port's bytes: records of the handshake, and heads of frames.
//!
//! ```text
//! caller                                port
//!   │ ── CallerHello ───────────────────▶ │   version range, cluster, node, incarnation, nonce
//!   │ ◀─────────────────────── PortHello ─│   the same of the other side
//!   │ ── CallerProof ───────────────────▶ │   HMAC-SHA256 by the shared key over both hellos
//!   │ ◀───────────────────────── Verdict ─│   HMAC-SHA256, and welcome or a refusal
//!   │ ══ sealed frames, both ways ═══════ │   requests, answers, heartbeats
//! ```
//!
//! Nothing here knows a key: the crate `tidemill-cluster` makes tags and checks them. All numbers
//! are little endian. `docs/formats.md` draws each layout.

pub mod fields;
pub mod frame;
pub mod handshake;
pub mod refusal;

#[cfg(test)]
mod tests;

pub use fields::ClusterDecodeError;
pub use frame::{BODY_BYTES_MAX, ClusterFrame, ClusterFrameHead, FRAME_HEAD_BYTES};
pub use handshake::{
    ClusterHello, ClusterVerdict, HELLO_BYTES_MAX, HandshakeHead, HandshakeRecord, NONCE_BYTES,
    RECORD_HEAD_BYTES, TAG_BYTES, VersionRange,
};
pub use refusal::Refusal;

/// The version of the frames and of everything that follows the handshake. The records of the
/// handshake keep their layout in all versions, and may get fields at their end.
pub const CLUSTER_VERSION: u8 = 1;

/// The oldest version that this build still speaks.
pub const CLUSTER_VERSION_OLDEST: u8 = 1;
