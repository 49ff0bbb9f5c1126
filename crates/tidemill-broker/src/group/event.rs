//! Events of a group for the node's log. They say why consumers stopped for a rebalance, which is
//! the first question about a lag.

use std::fmt;

/// Something that happened to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupEvent {
    /// All members have to join again.
    Rebalances(EventCause),
    /// A member is none any more.
    Gone(String, EventCause),
    /// All members of a generation have their assignments.
    Stable,
    /// Nobody is left.
    Empty,
}

/// Why it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventCause {
    Joined,
    JoinedAgain,
    CameBack,
    Left,
    SessionEnded,
    DidNotJoin,
    DidNotSync,
    MemberGone,
    NoRoom,
    NotStored,
}

impl fmt::Display for EventCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Joined => "a member joined",
            Self::JoinedAgain => "a member joined again",
            Self::CameBack => "a static member came back with another subscription",
            Self::Left => "it left",
            Self::SessionEnded => "nothing was heard of it for its session timeout",
            Self::DidNotJoin => "it did not join again within the rebalance timeout",
            Self::DidNotSync => "an assignment was not asked for within the rebalance timeout",
            Self::MemberGone => "a member is gone",
            Self::NoRoom => "the group has no room for it",
            Self::NotStored => "the assignments could not be stored",
        })
    }
}
