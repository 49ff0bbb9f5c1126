//! Planted bugs of the way that changes of a state take to a checkpoint.

use super::Plant;

/// See the module.
pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "piece-lost",
        what: "Rows that were put aside while a checkpoint is made are lost when they are a full piece.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/structure/aside.rs",
        changes: &[(
            "self.full.push_back(std::mem::replace(&mut self.last, next));",
            "self.last = next;",
        )],
        caught_by: &[
            "what_was_put_aside_comes_out_once",
            "what_changed_in_an_interval_or_all_is_written_as_it_was_at_its_end",
        ],
    },
    Plant {
        name: "pieces-left",
        what: "All that was put aside counts as written out when its last full piece is.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/structure/aside.rs",
        changes: &[(
            "        }\n        self.is_empty()\n",
            "        }\n        self.full.is_empty()\n",
        )],
        caught_by: &["what_was_put_aside_comes_out_once"],
    },
    Plant {
        name: "emptied-with-the-last",
        what: "A part of a state is emptied with the last piece, and what stands in pieces before is lost.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/structure/aside.rs",
        changes: &[(
            "        self.cleared.drain(..).for_each(|prefix| delta.clear(&prefix));\n",
            "        if self.full.is_empty() {\n            self.cleared.drain(..).for_each(|prefix| delta.clear(&prefix));\n        }\n",
        )],
        caught_by: &["what_was_put_aside_comes_out_once"],
    },
    Plant {
        name: "rows-as-they-come",
        what: "Rows that come in no order stand in a run as they came.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/delta.rs",
        changes: &[("if self.in_order.is_next(prefix, row) {", "if true {")],
        caught_by: &["rows_that_come_in_order_are_in_the_run_with_all_others"],
    },
    Plant {
        name: "rows-behind-others",
        what: "Rows that came in order stand in a run behind all other keys.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/delta.rs",
        changes: &[(
            "            to.put(in_order.take_before((&prefix.bytes, &self.bytes[it.key()])));\n",
            "",
        )],
        caught_by: &["rows_that_come_in_order_are_in_the_run_with_all_others"],
    },
    Plant {
        name: "rows-in-order-stay",
        what: "What one delta takes from another lacks the rows that came there in order.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/delta.rs",
        changes: &[("in other.in_order.rest() {", "in other.in_order.rest().take(0) {")],
        caught_by: &["rows_that_come_in_order_are_in_the_run_with_all_others"],
    },
    Plant {
        name: "all-changed-too-soon",
        what: "Once most rows have changed none is noted any more, though a checkpoint is being written out.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/structure/stamped.rs",
        changes: &[("self.frozen == NEVER && of.are_alike()", "of.are_alike()")],
        caught_by: &["what_changed_in_an_interval_or_all_is_written_as_it_was_at_its_end"],
    },
    Plant {
        name: "half-a-run-put",
        what: "What of an entry stands in the next part of a run is lost.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/checkpoints/put.rs",
        changes: &[("            bytes = rest;\n", "            bytes = &rest[rest.len()..];\n")],
        caught_by: &["a_run_that_is_written_in_parts_is_one_that_is_cut"],
    },
    Plant {
        name: "changes-of-one-part",
        what: "All parts of a run are put under the key of the first.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/checkpoints/put.rs",
        changes: &[("                self.nth += 1;\n", "")],
        caught_by: &[
            "a_run_that_is_written_in_parts_is_one_that_is_cut",
            "what_changed_is_put_as_the_run_that_it_is",
        ],
    },
    Plant {
        name: "too-long-is-lost",
        what: "A row that does not fit into what a slice can change at once is left out in silence.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/delta.rs",
        changes: &[(
            "        self.bytes.truncate(bytes);\n        self.is_too_long = true;\n",
            "        self.bytes.truncate(bytes);\n",
        )],
        caught_by: &[
            "what_is_too_much_for_one_is_refused_and_nothing_is_written",
            "what_is_no_run_is_refused_before_any_of_it_is_put",
        ],
    },
    Plant {
        name: "moved-as-it-stood",
        what: "What one delta takes from another is looked for where it stood there.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/delta.rs",
        changes: &[(
            "Entry { start: it.start + to, ..*it }",
            "Entry { start: it.start + to * 0, ..*it }",
        )],
        caught_by: &["what_one_takes_from_another_is_written_under_its_prefix"],
    },
    Plant {
        name: "digit-left-out",
        what: "Rows are put in order by the first digit of their numbers alone.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/delta/order.rs",
        changes: &[(
            "if digit(any) != digit(all) {",
            "if digit(any) != digit(all) && shift == 32 {",
        )],
        caught_by: &["rows_are_written_in_the_order_of_their_keys"],
    },
    Plant {
        name: "zeros-of-before",
        what: "Zeros behind what goes to a disk are what stood there before.",
        package: "tidemill-env",
        file: "crates/tidemill-env/src/paged.rs",
        changes: &[("        self[grown].fill(0);\n", "        let _unused = grown;\n")],
        caught_by: &["paged_bytes_are_those_of_a_vec_and_begin_at_a_block"],
    },
    Plant {
        name: "long-keys-by-their-hash",
        what: "Keys that are too long for their slots are told apart by their hashes alone.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/key_table.rs",
        changes: &[(
            ".is_some_and(|start| bytes[start..start + key.len()] == *key)",
            ".is_some_and(|start| start < bytes.len())",
        )],
        caught_by: &["keys_have_the_numbers_of_their_first_appearance"],
    },
    Plant {
        name: "short-keys-without-length",
        what: "A short key equals one that has zeros behind it.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/key_table.rs",
        changes: &[("third | (length as u64) << 56", "third")],
        caught_by: &[
            "a_short_key_is_itself_and_its_length",
            "keys_have_the_numbers_of_their_first_appearance",
        ],
    },
    Plant {
        name: "gap-in-the-index",
        what: "A number that is taken out of an index leaves a gap before those behind it.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/hash_index.rs",
        changes: &[(
            "        while self.slots[next] != 0 {\n            // It may",
            "        while false {\n            // It may",
        )],
        caught_by: &["numbers_are_found_by_their_hashes_until_they_are_taken_out"],
    },
    Plant {
        name: "leaves-though-used",
        what: "A key that changed after it was found to leave leaves all the same, unsaved.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/structure/expiry.rs",
        changes: &[("            *word &= !self.used.get(self.from).map_or(0, Cell::get);\n", "")],
        caught_by: &["what_expires_is_part_of_the_state_as_before"],
    },
    Plant {
        name: "newest-slice-leaves-first",
        what: "The keys of a slice wait to leave for as long as those of others begin to.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/expiry.rs",
        changes: &[("self.slices.push_back(slice);", "self.slices.push_front(slice);")],
        caught_by: &["all_keys_that_nobody_uses_leave_in_the_end"],
    },
    Plant {
        name: "leaving-begins-anew",
        what: "Which keys leave is found out anew before those found last have left.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/expiry.rs",
        changes: &[
            ("if !is_due || self.slices.contains(&slice) {", "if !is_due {"),
            (
                "        self.slices.push_back(slice);\n",
                "        self.slices.retain(|it| *it != slice);\n        \
                 self.slices.push_back(slice);\n",
            ),
        ],
        caught_by: &["all_keys_that_nobody_uses_leave_in_the_end"],
    },
    Plant {
        name: "revived-as-it-was-once",
        what: "A key that comes back is read from the oldest run that has it.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/checkpoints/rows.rs",
        changes: &[("self.slice).iter().rev()", "self.slice).iter()")],
        caught_by: &["single_rows_are_read_as_they_are_in_the_newest"],
    },
];
