//! Planted bugs of the log, each of which it once had or could have.

use super::Plant;

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "opened-unsettled",
        what: "A log of many streams is opened without a sync: what was read of one may change after a power cut.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/log/startup.rs",
        changes: &[
            ("        if !self.settled {\n", "        if false {\n"),
            ("&& matches!(file_system_sync.sync(), Some(Ok(())))", ""),
        ],
        caught_by: &["what_was_read_of_many_streams_stays"],
    },
    Plant {
        name: "own-offset-believed",
        what: "The base offset that a producer put into its chunk counts in the chunk's reference.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/format.rs",
        changes: &[(
            "base + i64::from(head.last_offset_delta)",
            "base + (head.last_offset() - head.base_offset)",
        )],
        caught_by: &["row_33_a_producers_own_base_offset_never_matters"],
    },
    Plant {
        name: "floor-after-failure",
        what: "What was in flight when a write failed is said to be durable by the next sync.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/streamlet.rs",
        changes: &[("if offsets.failed().is_some() {", "if false {")],
        caught_by: &["row_15_a_write_that_failed_while_another_group_was_synced_leaves_no_hole"],
    },
    Plant {
        name: "deletion-left-half-way",
        what: "A deletion that failed half way is carried out when the log is opened again.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/meta.rs",
        changes: &[("if in_force.is_some_and(|it| !it.deleted) {", "if in_force.is_some() {")],
        caught_by: &[
            "row_38_a_deletion_that_failed_takes_nothing_with_it_that_is_acknowledged_later",
        ],
    },
    Plant {
        name: "gone-before-synced",
        what: "Streams that are deleted together are said to be gone before that is durable.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/log/delete.rs",
        changes: &[("first.and_then(|()| file_system.sync())", "first")],
        caught_by: &["what_is_said_to_be_deleted_is_gone_whenever_the_power_goes"],
    },
    Plant {
        name: "used-again-before-synced",
        what: "Files of streams that are deleted together are used again while their old names may come back.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/log/delete.rs",
        changes: &[("if has_files { file_system.sync() }", "if false { file_system.sync() }")],
        caught_by: &["what_is_said_to_be_deleted_is_gone_whenever_the_power_goes"],
    },
    Plant {
        name: "weaker-part-unsynced",
        what: "A stream that becomes `always` leaves what was written before unsynced.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/stream.rs",
        changes: &[(
            "if now != before && now != Fsync::Os {",
            "if now != before && now == Fsync::Os {",
        )],
        caught_by: &["row_18_a_stronger_fsync_holds_for_what_is_there_already"],
    },
    Plant {
        name: "cut-not-sealed-again",
        what: "A cut behind a gap that was cut short is believed, though its mark may not be durable.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/recover/offset_gap.rs",
        changes: &[(
            "(now.sealed, now.cut) = (true, true);",
            "(now.sealed, now.cut) = (true, false);",
        )],
        caught_by: &[
            "row_19_cutting_behind_a_gap_can_stop_anywhere_and_is_done_by_the_next_recovery",
        ],
    },
    Plant {
        name: "opened-clock-believed",
        what: "Retention believes what the clock says when the log is opened.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/retention.rs",
        changes: &[(
            "let has_age = is_sure ||",
            "let has_age = self.index.0 < u32::MAX || is_sure ||",
        )],
        caught_by: &["row_13_a_clock_that_is_ahead_when_the_log_is_opened_deletes_nothing"],
    },
    Plant {
        name: "group-numbers-again",
        what: "Groups of a streamlet that was emptied count from 0 again after a restart.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/log/startup.rs",
        changes: &[(
            "next_group.max(first_group(self.shared.life))",
            "next_group.max(first_group(Life(0)))",
        )],
        caught_by: &["no_group_has_the_number_of_one_that_is_gone_from_the_disk"],
    },
];
