//! Planted bugs of replication: the flaws that the models of `tidemill-models` have, in the machines.

use super::Plant;

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "replica-ack-after-one",
        what: "A record counts when the fastest backup has it, not the slowest.",
        package: "tidemill-replica",
        file: "crates/tidemill-replica/src/set.rs",
        changes: &[(
            ".try_fold(self.local, |lowest, end| Some(lowest.min(end?)));",
            ".flatten().max().map_or(Some(self.local), |end| Some(end.min(self.local)));",
        )],
        caught_by: &[
            "both_sets_count_until_the_outcome_is_known",
            "keeps_its_promises_when_copies_sync_first",
        ],
    },
    Plant {
        name: "replica-old-set-alone",
        what: "While a change of set is under way the old set alone counts.",
        package: "tidemill-replica",
        file: "crates/tidemill-replica/src/set.rs",
        changes: &[(".chain(proposed)", ".chain(proposed.take(0))")],
        caught_by: &[
            "both_sets_count_until_the_outcome_is_known",
            "whatever_is_recorded_has_what_is_acknowledged",
        ],
    },
    Plant {
        name: "replica-any-generation",
        what: "An answer of a copy that has forgotten something counts.",
        package: "tidemill-replica",
        file: "crates/tidemill-replica/src/shipper.rs",
        changes: &[(
            "epoch == self.epoch && generation == self.copy.generation",
            "epoch == self.epoch && generation.0 > 0",
        )],
        caught_by: &["ignores_answers_of_other_epochs_and_generations"],
    },
    Plant {
        name: "replica-seal-without-promise",
        what: "A sealed copy still takes what an old leader sends.",
        package: "tidemill-replica",
        file: "crates/tidemill-replica/src/backup.rs",
        changes: &[(
            "        self.promise(epoch, self.durable.joined, steps);\n",
            "        let _ = &steps;\n",
        )],
        caught_by: &["does_as_the_protocol_says"],
    },
    Plant {
        name: "replica-answer-before-sync",
        what: "A copy answers before it has synced, in the mode that promises it.",
        package: "tidemill-replica",
        file: "crates/tidemill-replica/src/backup.rs",
        changes: &[(
            "            if self.syncs {\n",
            "            if self.syncs && shipped.end.0 == 0 {\n",
        )],
        caught_by: &["does_as_the_protocol_says", "keeps_its_promises_when_copies_sync_first"],
    },
    Plant {
        name: "replica-opening-cuts-again",
        what: "A late opening drops what was shipped after the first one.",
        package: "tidemill-replica",
        file: "crates/tidemill-replica/src/backup.rs",
        changes: &[(
            "        if self.durable.joined == Some(epoch) {\n",
            "        if self.durable.joined == Some(epoch) && held.end.0 == 0 {\n",
        )],
        caught_by: &["a_late_opening_drops_nothing"],
    },
    Plant {
        name: "replica-stale-below-opening",
        what: "A copy vouches for what an older epoch left below the place where it was opened.",
        package: "tidemill-replica",
        file: "crates/tidemill-replica/src/backup.rs",
        changes: &[(
            "let held = HeldRange { from, end: self.durable.held.end.max(from) };",
            "let low = self.durable.held.from.min(from);\n        let held = HeldRange { from: low, end: self.durable.held.end.max(from) };",
        )],
        caught_by: &["an_opening_vouches_for_nothing_below_it"],
    },
    Plant {
        name: "replica-doubtful-source",
        what: "A copy that has forgotten something is promoted as if it were full.",
        package: "tidemill-replica",
        file: "crates/tidemill-replica/src/promotion.rs",
        changes: &[(
            ".filter(|sealed| set.contains(sealed.copy))",
            ".filter(|sealed| set.on(sealed.copy.node).is_some())",
        )],
        caught_by: &["takes_the_longest_of_the_copies_that_count"],
    },
    Plant {
        name: "replica-shortest-prefix",
        what: "The shortest prefix is promoted.",
        package: "tidemill-replica",
        file: "crates/tidemill-replica/src/promotion.rs",
        changes: &[(
            ".max_by_key(|sealed| (end(sealed), own(sealed)))",
            ".min_by_key(|sealed| (end(sealed), own(sealed)))",
        )],
        caught_by: &["takes_the_longest_of_the_copies_that_count"],
    },
    Plant {
        name: "replica-truncate-by-length",
        what: "A returning copy keeps entries of an older epoch where it has as many as the leader.",
        package: "tidemill-replica",
        file: "crates/tidemill-replica/src/history.rs",
        changes: &[(
            "parted.unwrap_or(end.max(from))",
            "parted.map_or(end.max(from), |_| end.max(from))",
        )],
        caught_by: &["finds_where_logs_part", "does_as_the_protocol_says"],
    },
];
