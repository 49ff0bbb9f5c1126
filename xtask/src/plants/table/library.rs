//! Planted bugs that programs would meet which bring their own operators, sources and state.

use super::Plant;

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "handle-keeps-folder",
        what: "A job that was waited for cannot be resumed while its handle is kept.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/engine.rs",
        changes: &[("        self.job.let_go();\n", "")],
        caught_by: &["a_checkpoint_shows_what_the_stage_held_at_its_cycle"],
    },
    Plant {
        name: "saved-for-nobody",
        what: "A value that cannot be read again is saved, and found when the job resumes.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/structure.rs",
        changes: &[(
            "if row.is_multiple_of(ROWS_PER_READ)",
            "if row == usize::MAX - ROWS_PER_READ",
        )],
        caught_by: &["what_could_not_be_read_again_is_refused_when_it_is_saved"],
    },
    Plant {
        name: "maker-unwinds",
        what: "What a source or a stage panics with while its job is opened ends the program.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/panic_guard.rs",
        changes: &[(
            "        Ok(blamed) => Err((*blamed).into()),\n",
            "        Ok(blamed) => resume_unwind(blamed),\n",
        )],
        caught_by: &["what_panics_while_a_job_is_opened_is_named_and_leaves_its_folder_free"],
    },
    Plant {
        name: "structures-uncounted",
        what: "A state has more structures than a checkpoint can tell apart, and its job fails at the first.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/operator.rs",
        changes: &[(
            "        structure::cannot_save(&mut *self.state(SliceId(0)))\n",
            "        None\n",
        )],
        caught_by: &["a_state_of_more_structures_than_a_checkpoint_tells_apart_is_refused"],
    },
    Plant {
        name: "last-time-counts",
        what: "A source that is given two event times has the last, without a word.",
        package: "tidemill",
        file: "crates/tidemill/src/builder/source.rs",
        changes: &[(
            "Some(before) if *before != time =>",
            "Some(before) if before.field.is_empty() =>",
        )],
        caught_by: &["a_source_has_one_event_time"],
    },
    Plant {
        name: "dictionary-apart",
        what: "Text in a dictionary is not joined with plain text.",
        package: "tidemill-operators",
        file: "crates/tidemill-operators/src/join.rs",
        changes: &[(
            "    if let DataType::Dictionary(_, left) = left {\n        return common_type(left, right);\n    }\n",
            "",
        )],
        caught_by: &["text_in_dictionaries_is_a_key_as_plain_text_is"],
    },
];
