//! Planted bugs of sources that get more slices while a job reads them.

use super::Plant;

/// See the module.
pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "added-in-a-replay",
        what: "A slice that a source gets while recorded cycles are done again is read in those.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/growth.rs",
        changes: &[("begun() < job.growth.recorded", "begun() < Cycle::NONE")],
        caught_by: &["slices_that_come_in_a_replay_are_read_after_it"],
    },
    Plant {
        name: "added-holds-time",
        what: "In a replay of cycles before it was there a slice of a source holds event time back.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/engine/open.rs",
        changes: &[("                idle: true,", "                idle: false,")],
        caught_by: &[
            "slices_that_come_while_the_job_runs_are_read_and_replayed",
            "slices_that_came_while_the_job_was_away_are_read_and_replayed",
        ],
    },
    Plant {
        name: "laid-out-anew",
        what: "Stages that read a source without keys get as many slices as the source has now.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/plan.rs",
        changes: &[("self[link.from].began_with", "self[link.from].slices")],
        caught_by: &["slices_that_come_while_the_job_runs_are_read_and_replayed"],
    },
    Plant {
        name: "credit-of-the-added",
        what: "A slice that a source gets uses up the credit that those in the earlier layout need.",
        package: "tidemill-sim",
        file: "crates/tidemill-flow/src/runtime/job.rs",
        changes: &[("if self.plan[lane.stage].grows {", "if false {")],
        caught_by: &["f5_row_6_row_24_slow_threads_and_disks_and_changes_of_threads_do_not_show"],
    },
];
