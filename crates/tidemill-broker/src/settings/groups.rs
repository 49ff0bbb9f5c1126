//! Settings of consumer groups.

use tidemill_types::ByteSize;

/// Consumer groups: times and bounds.
#[derive(Clone, Debug)]
pub struct GroupSettings {
    /// The time that the first members of a group wait for others, in milliseconds.
    /// (`group.initial.rebalance.delay.ms`.) Default 500: members that one deployment starts
    /// together come within it, and a lone consumer need not wait for Kafka's 3,000.
    pub initial_delay_ms: u64,
    /// Shortest session that members may ask for, in milliseconds.
    /// (`group.min.session.timeout.ms`.) Default 6,000.
    pub session_ms_min: u64,
    /// Longest session that members may ask for, in milliseconds.
    /// (`group.max.session.timeout.ms`.) Default 1,800,000.
    pub session_ms_max: u64,
    /// Members of a group. (`group.max.size`.) Default 10,000.
    pub members: usize,
    /// Bytes of a group: metadata and assignments of its members. Default 16 MiB.
    pub group_bytes: ByteSize,
    /// Groups. Default 100,000.
    pub groups: usize,
    /// Offsets of all groups together. Default 1,000,000.
    pub offsets: usize,
    /// Bytes that a client may write to an offset. (`offset.metadata.max.bytes`.) Default 4,096.
    pub metadata_bytes: usize,
    /// The time for which offsets of a group without members are kept, in milliseconds of the
    /// node's running time. (`offsets.retention.minutes`.) Default 7 days.
    pub offsets_retention_ms: u64,
}

impl Default for GroupSettings {
    fn default() -> Self {
        Self {
            initial_delay_ms: 500,
            session_ms_min: 6_000,
            session_ms_max: 1_800_000,
            members: 10_000,
            group_bytes: ByteSize(16 << 20),
            groups: 100_000,
            offsets: 1_000_000,
            metadata_bytes: 4_096,
            offsets_retention_ms: 7 * 24 * 3_600_000,
        }
    }
}
