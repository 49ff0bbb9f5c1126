//! Planted bugs of jobs that go on lazily, and read single keys of their state.

use super::Plant;

/// See the module.
pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "key-as-it-was-once",
        what: "A key that is read alone is read from the oldest run that has it.",
        package: "tidemill-checkpoints",
        file: "crates/tidemill-checkpoints/src/checkpoints/key_index.rs",
        changes: &[("for index in self.known.iter().rev()", "for index in self.known.iter()")],
        caught_by: &["a_key_is_found_as_the_newest_checkpoint_has_it"],
    },
    Plant {
        name: "key-of-a-cleared-part",
        what: "A key that is read alone is found though its part was emptied since.",
        package: "tidemill-checkpoints",
        file: "crates/tidemill-checkpoints/src/checkpoints/key_index.rs",
        changes: &[(
            "prefix.starts_with(it)) {\n                break;",
            "prefix.starts_with(it)) {",
        )],
        caught_by: &["a_key_is_found_as_the_newest_checkpoint_has_it"],
    },
    Plant {
        name: "numbered-as-in-memory",
        what: "A group that was read alone is saved under its place in memory, and not its number.",
        package: "tidemill-operators",
        file: "crates/tidemill-operators/src/window/table.rs",
        changes: &[(
            "self.numbers.map_or(group, |numbers| numbers[group] as usize)",
            "self.numbers.map_or(group, |_| group)",
        )],
        caught_by: &["results_are_those_of_the_model", "every_record_counts_once_or_is_late"],
    },
    Plant {
        name: "new-key-takes-a-number",
        what: "All keys that are new while a table is read by its keys get one number.",
        package: "tidemill-operators",
        file: "crates/tidemill-operators/src/window/table.rs",
        changes: &[("                partly.next += 1;\n", "")],
        caught_by: &["results_are_those_of_the_model", "every_record_counts_once_or_is_late"],
    },
    Plant {
        name: "taken-over-unchanged",
        what: "What changed in rows that were read alone is forgotten when the rest is there.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/structure/dirty_stamps.rs",
        changes: &[(
            "stamp if stamp == self.now => self.blocks[block / 64] |= bit,",
            "stamp if stamp == self.now => {}",
        )],
        caught_by: &["rows_that_another_holder_takes_over_are_written_once"],
    },
    Plant {
        name: "taken-over-again",
        what: "Rows that the checkpoint under way has are written to it once more when the rest is there.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/structure/dirty_stamps.rs",
        changes: &[(
            "let is_written = stamp == frozen && there < written_before;",
            "let is_written = stamp == frozen && there < written_before && row == usize::MAX;",
        )],
        caught_by: &["rows_that_another_holder_takes_over_are_written_once"],
    },
];
