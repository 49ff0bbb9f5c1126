//! The producer id that chunks are sent under, and how the next one is got (KIP-98).

use crate::Refusal;
use tidemill_types::{ProducerEpoch, ProducerId};

/// The identity of an idempotent or transactional producer (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerIdentity {
    pub(crate) id: ProducerId,
    pub(crate) epoch: ProducerEpoch,
}

impl ProducerIdentity {
    /// The identity in an answer of Kafka's.
    pub(crate) fn of(id: i64, epoch: i16) -> Self {
        Self { id: ProducerId(id), epoch: ProducerEpoch(epoch) }
    }
}

/// The state of the producer's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IdentityState {
    /// It is wanted, but not to be asked for before this moment.
    Wanted { not_before_us: u64 },
    /// A request for it is under way.
    Asked,
    /// Here it is.
    Held(ProducerIdentity),
    /// It will not be given out.
    Refused(Refusal),
}

impl IdentityState {
    /// The identity, if there is one.
    pub(super) fn identity(&self) -> Option<ProducerIdentity> {
        match self {
            Self::Held(identity) => Some(*identity),
            _ => None,
        }
    }

    /// Wants another identity than `spent`, if that is the one that is held. Says whether it was.
    pub(super) fn replace(&mut self, spent: Option<ProducerIdentity>) -> bool {
        let replaced = spent.is_some() && self.identity() == spent;
        if replaced {
            *self = Self::Wanted { not_before_us: 0 };
        }
        replaced
    }
}
