//! Transactions as administrators see them.

use super::{coordinator::Coordinator, state::Transaction};
use tidemill_wire::transactions::TransactionPhase as Phase;

/// The protocol's names of the phases.
pub(crate) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Empty => "Empty",
        Phase::Ongoing => "Ongoing",
        Phase::PrepareCommit => "PrepareCommit",
        Phase::PrepareAbort => "PrepareAbort",
        Phase::CompleteCommit => "CompleteCommit",
        Phase::CompleteAbort => "CompleteAbort",
    }
}

/// Phases that one can ask for by name: those above, and two that nothing is ever seen in here.
pub(crate) fn is_phase_name(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ];
    NAMES.contains(&name)
}

impl Coordinator {
    /// A transactional id, as it is now.
    pub(crate) fn find(&self, id: &str) -> Option<Transaction> {
        self.get(id)?.held().transaction.clone()
    }

    /// All of them, by id.
    pub(crate) fn list(&self) -> Vec<(String, Transaction)> {
        let known = |entry: &std::sync::Arc<super::entry::TransactionEntry>| {
            Some((entry.id.clone(), entry.held().transaction.clone()?))
        };
        self.entries().iter().filter_map(known).collect()
    }
}
