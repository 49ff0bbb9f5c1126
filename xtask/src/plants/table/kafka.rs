//! Planted bugs of what Kafka's clients meet in the broker, and what clusters meet in a sink.

use super::Plant;

/// See the module.
pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "making-up-aborted",
        what: "Who finds a transaction that was to commit what has lost its end aborts it.",
        package: "tidemill-client",
        file: "crates/tidemill-client/src/transactions/decided.rs",
        changes: &[(
            "Purpose::EndAgain(committed)) => Next::End(committed),",
            "Purpose::EndAgain(_)) => Next::TakeOver,",
        )],
        caught_by: &[
            "what_makes_up_for_an_end_is_ended_and_not_taken_over",
            "whoever_is_killed_while_a_lost_end_is_made_up_for_all_of_it_counts_or_nothing",
        ],
    },
    Plant {
        name: "decision-forgotten",
        what: "An id is taken over, and how its last transaction was decided is nowhere any more.",
        package: "tidemill-client",
        file: "crates/tidemill-client/src/transactions/take_over.rs",
        changes: &[(
            "self.init(Purpose::EndAgain(committed))?.0,",
            "self.init(Purpose::Write)?.0,",
        )],
        caught_by: &[
            "whoever_is_killed_while_a_lost_end_is_made_up_for_all_of_it_counts_or_nothing",
        ],
    },
    Plant {
        name: "start-told-late",
        what: "A fetch session is told that records were deleted when the next one comes.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/session.rs",
        changes: &[(
            "slots.iter().filter(|(_, it)| has_moved(it)).map(|(id, _)| *id).collect()",
            "Vec::new()",
        )],
        caught_by: &["a_start_that_moves_is_told_though_nothing_is_new"],
    },
    Plant {
        name: "restore-not-noted",
        what: "A restore is answered though a node that is killed would do it once more.",
        package: "tidemill-node",
        file: "crates/tidemill-node/src/jobs.rs",
        changes: &[(
            "            Some(begins) if !begins.resume => {",
            "            Some(_unused) if true => {",
        )],
        caught_by: &["a_job_that_goes_on_and_of_which_that_cannot_be_noted_is_stopped_and_told_of"],
    },
];
