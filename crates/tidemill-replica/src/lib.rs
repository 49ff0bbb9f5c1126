//! Replication of virtual logs as pure machines: events in, actions out.
//!
//! ```text
//!  appended ─→ Shipper ─ open, ship ─→ BackupCopy ─ answer ─→ Shipper ─ matched ─→ SetLeadership ─→ watermark
//!              one for each backup      one for each copy                          one for each virtual log
//!  elected  ─→ Promotion: seal → longest prefix → copy → record → SetLeadership
//! ```
//!
//! Nothing here reads a clock, a file or a socket. A shell performs the actions in the order in which
//! they are given and reports what came of them. The protocol is model-checked in `tidemill-models`,
//! and `docs/rfcs/2026-11-29-replication.md` gives the reasons. No node uses this crate yet.
//!
//! Read in this order: [`copy_set`], [`history`], [`backup`], [`shipper`], [`set`], [`promotion`].
//!
//! Invariants:
//! - A record is below the watermark only if every copy of every set that may be in force has it.
//! - A copy answers under an epoch only after the epoch is durable, and never under a lower one.
//! - A copy counts only in the generation that the set names.
//! - A leader learns the outcome of a change of set from the record alone.

pub mod backup;
pub mod copy_set;
pub mod history;
pub mod promotion;
pub mod set;
pub mod shipper;
#[cfg(test)]
mod tests;

pub use backup::{BackupAnswer, BackupCopy, BackupRequest, BackupStep, HeldRange};
pub use copy_set::{CopyId, CopySet, RecordPut, RecordRevision, SetSegment, VirtualLogRecord};
pub use history::EpochHistory;
pub use promotion::{Promotion, PromotionAction, PromotionEvent};
pub use set::{SetAction, SetEvent, SetLeadership};
pub use shipper::{ChunkSizes, Shipper, ShipperAction, ShipperEvent, ShipperLimits};
