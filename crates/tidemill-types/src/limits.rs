//! Every limit in one place. A limit is a bound on memory or time that no input can lift.

/// Most slices a stage may have.
pub const SLICES_MAX: u32 = 65_536;
/// Most structures of the state of a slice in a checkpoint, where a byte says which of them a row is of.
pub const STRUCTURES_MAX: usize = 256;
/// Most worker threads a job may have on a node.
pub const WORKERS_MAX: usize = 1_024;
/// Most stages, sources and sinks in one job.
pub const STAGES_MAX: usize = 1_024;
/// Most sliding windows that a record may belong to: `size` is no more than so many times `every`.
pub const WINDOWS_OF_RECORD_MAX: i64 = 1_000_000;
/// Shortest time from one checkpoint to the next that an engine chooses by itself, in microseconds.
pub const CHECKPOINT_EVERY_US_MIN: u64 = 100_000;
/// Longest such time, in microseconds.
pub const CHECKPOINT_EVERY_US_MAX: u64 = 60_000_000;
/// Largest single input record, in bytes; a longer one goes to the dead-letter sink, cut.
pub const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest frame on a link between processes, in bytes.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Largest job file, in bytes.
pub const JOB_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Most bytes of a bad record kept in its dead letter.
pub const DEAD_LETTER_BYTES_MAX: usize = 64 * 1024;
