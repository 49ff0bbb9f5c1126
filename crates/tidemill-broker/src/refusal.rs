//! Refusals: the protocol's error code, and the reason.
//!
//! Invariant: no failure is `UNKNOWN_SERVER_ERROR`. Each code tells the client its next step.

use tidemill_log::{AppendError, LogError};
use tidemill_wire::{
    chunk::ChunkError,
    kafka::{ErrorCode, KafkaString, text},
    records::{RecordFault, RecordsError},
};

/// Longest reason that is sent, in characters. It may quote the request.
const REASON_CHARS_MAX: usize = 1_000;

/// Why something was not done, as the protocol says it.
#[derive(Clone, Debug)]
pub(crate) struct RequestRefusal {
    pub(crate) code: ErrorCode,
    /// The reason, which newer clients are told beside the code.
    pub(crate) message: Option<String>,
    /// The records of a batch at fault, counted from 0 (KIP-467). Empty if the batch as a whole is
    /// at fault.
    pub(crate) records: Vec<u32>,
}

impl RequestRefusal {
    pub(crate) fn of(code: ErrorCode) -> Self {
        Self { code, message: None, records: Vec::new() }
    }

    pub(crate) fn with(code: ErrorCode, why: &impl ToString) -> Self {
        Self { code, message: Some(why.to_string()), records: Vec::new() }
    }

    /// Names the records at fault.
    pub(crate) fn of_records(self, records: Vec<u32>) -> Self {
        Self { records, ..self }
    }

    /// The reason, as it is sent.
    pub(crate) fn reason(&self) -> Option<KafkaString> {
        let short = |it: &String| text(&it.chars().take(REASON_CHARS_MAX).collect::<String>());
        self.message.as_ref().map(short)
    }
}

impl From<AppendError> for RequestRefusal {
    fn from(error: AppendError) -> Self {
        let code = match &error {
            AppendError::Chunk(error) => return error.into(),
            AppendError::TooLarge { .. } => ErrorCode::MessageTooLarge,
            AppendError::Full(_) | AppendError::Disk(_) | AppendError::Failed(_) => {
                tracing::warn!(%error, "an append failed");
                ErrorCode::KafkaStorageError
            }
            AppendError::NotLeader { .. } | AppendError::Replica(_) | AppendError::Closed => {
                ErrorCode::NotLeaderOrFollower
            }
        };
        Self::with(code, &error)
    }
}

impl From<&ChunkError> for RequestRefusal {
    fn from(error: &ChunkError) -> Self {
        let code = match error {
            ChunkError::Short { .. } | ChunkError::Length(_) | ChunkError::Crc { .. } => {
                ErrorCode::CorruptMessage
            }
            ChunkError::Codec(_) => ErrorCode::UnsupportedCompressionType,
            ChunkError::Magic(_)
            | ChunkError::Trailing(_)
            | ChunkError::Count { .. }
            | ChunkError::Producer { .. } => ErrorCode::InvalidRecord,
        };
        Self::with(code, error)
    }
}

impl From<&RecordsError> for RequestRefusal {
    fn from(error: &RecordsError) -> Self {
        let code = match error {
            // Its checksum was right, so its producer wrote it so, and would repeat it in vain.
            RecordsError::Damaged { fault: RecordFault::HeaderKey, .. } => ErrorCode::InvalidRecord,
            RecordsError::Damaged { .. } | RecordsError::Packed { .. } => ErrorCode::CorruptMessage,
            RecordsError::TooLarge { .. } | RecordsError::RecordTooLarge { .. } => {
                ErrorCode::MessageTooLarge
            }
            RecordsError::Miscounted { .. }
            | RecordsError::Trailing { .. }
            | RecordsError::OutOfOrder { .. }
            | RecordsError::Linked
            | RecordsError::Attributes(_) => ErrorCode::InvalidRecord,
            RecordsError::Codec(_) => ErrorCode::UnsupportedCompressionType,
        };
        let at_fault = match error {
            RecordsError::Damaged { record, .. } | RecordsError::OutOfOrder { record, .. } => {
                Some(*record)
            }
            _ => None,
        };
        // Clients take a record that is named for invalid, whatever the code says.
        let named = at_fault.filter(|_| code == ErrorCode::InvalidRecord);
        Self::with(code, error).of_records(named.into_iter().collect())
    }
}

/// Changes of topics.
impl From<LogError> for RequestRefusal {
    fn from(error: LogError) -> Self {
        let code = match &error {
            LogError::Name(_) => ErrorCode::InvalidTopicException,
            LogError::Exists(_) => ErrorCode::TopicAlreadyExists,
            LogError::Unknown(_) => ErrorCode::UnknownTopicOrPartition,
            // Settings were checked before, by name: what is left is how many partitions.
            LogError::Spec { .. } => ErrorCode::InvalidPartitions,
            LogError::Offset { .. } => ErrorCode::OffsetOutOfRange,
            // It stops; whoever takes its place will answer.
            LogError::Closed => ErrorCode::NotController,
            LogError::Epoch(_) => ErrorCode::FencedLeaderEpoch,
            LogError::Disk { .. }
            | LogError::Damaged { .. }
            | LogError::InUse(_)
            | LogError::Incarnation { .. }
            | LogError::Kept { .. } => {
                tracing::error!(%error, "topics could not be changed");
                ErrorCode::KafkaStorageError
            }
        };
        Self::with(code, &error)
    }
}
