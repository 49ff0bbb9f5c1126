//! Limits that more than one crate keeps, or that users read of. A limit is a bound on memory or
//! time that no input can lift.
//!
//! A limit of one module stands in that module, as a constant whose name ends with its unit and
//! `MAX`. A test reads this file: each limit here is used outside this crate, and each figure that
//! `docs/` names for one is the constant's.

#[cfg(test)]
mod tests;

/// Most slices of a stage.
pub const SLICES_MAX: u32 = 65_536;
/// Most structures in the state of a slice. A byte of a checkpoint's row names its structure.
pub const STRUCTURES_MAX: usize = 256;
/// Most worker threads of a job on a node.
pub const WORKERS_MAX: usize = 1_024;
/// Most stages, sources and sinks in one job.
pub const STAGES_MAX: usize = 1_024;
/// Most sliding windows of one record: the bound on `size` divided by `every`.
pub const WINDOWS_OF_RECORD_MAX: i64 = 1_000_000;
/// Shortest time from one checkpoint to the next under `every: auto`, in microseconds.
pub const CHECKPOINT_EVERY_US_MIN: u64 = 100_000;
/// Longest time from one checkpoint to the next under `every: auto`, in microseconds.
pub const CHECKPOINT_EVERY_US_MAX: u64 = 60_000_000;
/// Largest input record, in bytes. A longer one goes to the dead-letter sink, cut.
pub const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest frame on a link between processes, in bytes.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Largest job file, in bytes.
pub const JOB_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Most bytes of a bad record that its dead letter keeps.
pub const DEAD_LETTER_BYTES_MAX: usize = 64 * 1024;
