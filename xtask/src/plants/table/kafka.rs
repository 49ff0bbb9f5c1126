//! Planted bugs of the broker, as Kafka's clients meet them, and of sinks into other clusters.

use super::Plant;

/// See the module.
pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "making-up-aborted",
        what: "Who finds a transaction that was to commit what has lost its end aborts it.",
        package: "tidemill-client",
        file: "crates/tidemill-client/src/transactions/decision.rs",
        changes: &[(
            "TakeoverPurpose::EndAgain(committed)) => NextStep::End(committed),",
            "TakeoverPurpose::EndAgain(_)) => NextStep::TakeOver,",
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
        file: "crates/tidemill-client/src/transactions/takeover.rs",
        changes: &[(
            "self.init(TakeoverPurpose::EndAgain(committed))?.0,",
            "self.init(TakeoverPurpose::Write)?.0,",
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
        name: "ends-not-stored",
        what: "After a restart nobody knows of which producers a transaction has ended in a partition.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/partition/snapshot.rs",
        changes: &[("            ended: image.ended,\n", "            ended: Vec::new(),\n")],
        caught_by: &["r1_r4_what_is_known_is_the_same_after_a_restart_with_snapshots_and_without"],
    },
    Plant {
        name: "topic-asked-first",
        what: "A setting that no topic can have is an unknown topic's fault.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/handler/configs/change.rs",
        changes: &[(
            "let found = topic_spec(broker, name);",
            "let found = Ok::<_, Refusal>(topic_spec(broker, name)?);",
        )],
        caught_by: &["settings_of_a_topic_that_is_not_there_are_refused_for_what_is_wrong_first"],
    },
    Plant {
        name: "beginning-forgotten",
        what: "When a transaction began is told while it is open, and not after its end.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/handler/transaction/describe.rs",
        changes: &[(
            "transaction_start_time_ms: it.began_ms,",
            "transaction_start_time_ms: if it.phase == Phase::Ongoing { it.began_ms } else { -1 },",
        )],
        caught_by: &["when_a_transaction_began_is_told_until_its_producer_comes_anew"],
    },
    Plant {
        name: "reset-hostile",
        what: "A client that is killed, and so resets its connection, counts as a hostile one.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/connection.rs",
        changes: &[(
            "FrameError::Socket(error) => Self::Socket(error),",
            "it @ FrameError::Socket(_) => Self::Frame(it),",
        )],
        caught_by: &["a_client_whose_connection_is_reset_is_not_hostile"],
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
