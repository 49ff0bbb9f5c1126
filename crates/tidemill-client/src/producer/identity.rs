//! The producer id that chunks are sent under, and how the next one is got (KIP-98).

use super::chunk::Identity;
use crate::Refusal;

/// How far the producer id is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    /// It is wanted, but not to be asked for before this moment.
    Wanted { not_before_us: u64 },
    /// It is asked for.
    Asked,
    /// Here it is.
    Held(Identity),
    /// It will not be given out.
    Refused(Refusal),
}

impl Holding {
    /// The identity, if there is one.
    pub(super) fn identity(&self) -> Option<Identity> {
        match self {
            Self::Held(identity) => Some(*identity),
            _ => None,
        }
    }

    /// Wants another identity than `spent`, if that is the one that is held. Says whether it was.
    pub(super) fn replace(&mut self, spent: Option<Identity>) -> bool {
        let replaced = spent.is_some() && self.identity() == spent;
        if replaced {
            *self = Self::Wanted { not_before_us: 0 };
        }
        replaced
    }
}
