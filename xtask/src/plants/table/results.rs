//! Planted bugs of what a job reads, computes and writes: wrong results, and rows that are missing or
//! there twice.

use super::Plant;

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "failed-commit-noted",
        what: "A stream sink whose last commit failed notes that it is done.",
        package: "tidemill-connectors",
        file: "crates/tidemill-connectors/src/stream/sink.rs",
        changes: &[("= !self.is_unsure && self.there", "= self.there")],
        caught_by: &["a_sink_that_is_closed_after_a_failed_commit_writes_each_row_once"],
    },
    Plant {
        name: "lost-commit-believed",
        what: "A commit to a table whose connection broke is taken for done, whatever its mark says.",
        package: "tidemill-connectors",
        file: "crates/tidemill-connectors/src/postgres/once.rs",
        changes: &[(
            "it if it == self.held => Decision::Send",
            "it if it == self.held => Decision::IsThere",
        )],
        caught_by: &["a_mark_says_whether_a_lost_commit_came_through"],
    },
    Plant {
        name: "torn-rows-kept",
        what: "What a write to a file that found no room has left stays, and the rows follow it once more.",
        package: "tidemill-connectors",
        file: "crates/tidemill-connectors/src/sink/growing.rs",
        changes: &[("        self.is_torn = true;\n", "        self.is_torn = false;\n")],
        caught_by: &["row_14_a_file_is_the_same_byte_for_byte_whenever_its_disk_was_full"],
    },
    Plant {
        name: "dropped-rows-believed",
        what: "After a sync that found no room the next one is believed, though the first has dropped what it was to write.",
        package: "tidemill-connectors",
        file: "crates/tidemill-connectors/src/sink/growing.rs",
        changes: &[(
            "        if self.is_unsure {\n",
            "        if self.is_unsure && self.length == 0 {\n",
        )],
        caught_by: &["row_14_what_a_sync_without_room_dropped_is_written_again"],
    },
    Plant {
        name: "chunks-of-a-refused-commit-again",
        what: "A commit to a stream that found no room in its middle writes its first chunks again.",
        package: "tidemill-connectors",
        file: "crates/tidemill-connectors/src/stream/sink.rs",
        changes: &[(
            "                    self.there[streamlet.index() as usize] = place;\n",
            "                    let _unused = place;\n",
        )],
        caught_by: &["row_14_a_stream_is_the_same_byte_for_byte_whenever_its_disk_was_full"],
    },
    Plant {
        name: "unsynced-rows-believed",
        what: "Rows of a file that can be read are marked as synced, though a sync of them may have failed.",
        package: "tidemill-connectors",
        file: "crates/tidemill-connectors/src/sink/file.rs",
        changes: &[(
            "            disk.open_placed(&self.path)?.write_again(synced, length)?;\n",
            "            let _unused = synced;\n",
        )],
        caught_by: &["every_row_is_there_once_after_any_ends"],
    },
    Plant {
        name: "late-by-block",
        what: "Late rows of a window leave block by block, not slice by slice.",
        package: "tidemill-operators",
        file: "crates/tidemill-operators/src/window.rs",
        changes: &[(
            "        for (block, rows, runs) in self.0 {\n",
            "        let mut all = self.0;\n        all.sort_by_key(|(block, ..)| *block);\n        for (block, rows, runs) in all {\n",
        )],
        caught_by: &["lanes_do_not_show_in_late_rows"],
    },
    Plant {
        name: "late-for-all",
        what: "A row that is late for one of the stages that share panes is left out of all of them.",
        package: "tidemill-operators",
        file: "crates/tidemill-operators/src/window/panes.rs",
        changes: &[(
            "        (is_late, is_taken)\n",
            "        is_taken &= !is_late;\n        (is_late, is_taken)\n",
        )],
        caught_by: &["a_row_that_is_late_for_one_stage_is_counted_by_another"],
    },
    Plant {
        name: "shortest-window-lets-go",
        what: "A pane goes when the windows of one stage are done with it, though others are not.",
        package: "tidemill-operators",
        file: "crates/tidemill-operators/src/window/panes.rs",
        changes: &[("all_spans().all(|it|", "all_spans().any(|it|")],
        caught_by: &["what_shares_panes_writes_what_it_writes_alone"],
    },
    Plant {
        name: "refused-row-kept",
        what: "A row that an argument has no value for is counted, with the values of another.",
        package: "tidemill-operators",
        file: "crates/tidemill-operators/src/refused.rs",
        changes: &[(
            "order.extend(rows.iter().copied().filter(|row| !is_refused(row)));",
            "order.extend(rows);",
        )],
        caught_by: &["refused_rows_are_dead_letters_and_the_others_go_on"],
    },
    Plant {
        name: "batch-without-bytes",
        what: "What stands behind a batch without a body in an Arrow file is passed over.",
        package: "tidemill-connectors",
        file: "crates/tidemill-connectors/src/arrow_file.rs",
        changes: &[("Ok(None) if is_batch =>", "Ok(None) if is_batch && false =>")],
        caught_by: &["a_batch_without_bytes_costs_no_records"],
    },
    Plant {
        name: "keys-for-ever",
        what: "Session windows keep all keys that ever came while any session is open.",
        package: "tidemill-operators",
        file: "crates/tidemill-operators/src/window/session.rs",
        changes: &[("self.open.len() <= KEYS_KEPT.max(self.live * 2)", "!self.open.is_empty()")],
        caught_by: &["keys_that_do_not_come_again_are_forgotten"],
    },
    Plant {
        name: "late-though-open",
        what: "A record of a session that is open is late by its own time.",
        package: "tidemill-operators",
        file: "crates/tidemill-operators/src/window/session.rs",
        changes: &[(
            "if is_late && !state.joins(&prepared.keys, hashes, row, (time, gap)) {",
            "let _ = (&prepared.keys, hashes);\n            if is_late {",
        )],
        caught_by: &["a_record_that_touches_an_open_session_is_not_late"],
    },
    Plant {
        name: "fractions-cut",
        what: "A number within a list is cut to a whole one.",
        package: "tidemill-connectors",
        file: "crates/tidemill-connectors/src/columns/nested.rs",
        changes: &[(
            "has_whole(data_type) && may_have_fractions(json)",
            "has_whole(data_type) && may_have_fractions(&[])",
        )],
        caught_by: &["nothing_in_a_list_or_an_object_is_cut_to_a_whole_number"],
    },
    Plant {
        name: "silent-source-ended",
        what: "A source that is silent when the threads of its job change is taken to have ended.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/source_lane.rs",
        changes: &[("self.shed.ended |= ended;", "self.shed.ended = true;")],
        caught_by: &["a_silent_source_whose_threads_change_has_not_ended"],
    },
    Plant {
        name: "cycle-time-of-now",
        what: "An operator is told what time it is, not when its cycle was.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/stage_lane.rs",
        changes: &[("            cycle_time: time,\n", "            cycle_time: job.wall(),\n")],
        caught_by: &["a_replay_tells_operators_the_times_and_seeds_of_the_first_run"],
    },
    Plant {
        name: "seed-of-now",
        what: "The random numbers of a cycle are others when it is done again.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/stage_lane.rs",
        changes: &[(
            "            seed: job.seed_of(cycle),\n            watermarks",
            "            seed: job.seed_of(cycle) ^ job.now_us(),\n            watermarks",
        )],
        caught_by: &["a_replay_tells_operators_the_times_and_seeds_of_the_first_run"],
    },
    Plant {
        name: "cycle-time-goes-back",
        what: "The cycles of a job that resumes are before those of the life before if the clock is.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/engine/open.rs",
        changes: &[(
            "pacer.go_on_after(before.cycle, before.time);",
            "pacer.go_on_after(before.cycle, tidemill_types::Micros::MIN);",
        )],
        caught_by: &["a_job_that_goes_on_is_told_of_no_earlier_time"],
    },
    Plant {
        name: "sent-without-event-time",
        what: "A source that goes on from a checkpoint is not told how far event time was there.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/engine/open.rs",
        changes: &[(
            ".seek(Position(saved.position), saved.watermark)",
            ".seek(Position(saved.position), tidemill_types::Micros::MIN)",
        )],
        caught_by: &["a_job_that_goes_on_is_told_of_no_earlier_time"],
    },
    Plant {
        name: "told-before-letters",
        what: "A source that follows is told of records whose dead letters are not written yet.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/commit.rs",
        changes: &[(
            "    let did = write_letters(job, thread)?;\n    job.committer.followed.committed(committed);\n",
            "    job.committer.followed.committed(committed);\n    let did = write_letters(job, thread)?;\n",
        )],
        caught_by: &["a_source_is_told_of_nothing_whose_dead_letters_are_not_there"],
    },
    Plant {
        name: "told-before-slow-sink",
        what: "Without a ledger a source that follows is told of what one of its sinks is still committing.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/commit.rs",
        changes: &[(
            "        let sink = Arc::clone(&state.sink);\n        drop(inner);\n        commit_sink",
            "        state.committed = cycle;\n        let sink = Arc::clone(&state.sink);\n        drop(inner);\n        commit_sink",
        )],
        caught_by: &["a_source_is_told_of_nothing_that_a_slower_sink_lacks"],
    },
    Plant {
        name: "wanted-moves-others",
        what: "Where others begin that wait for a table depends on who waits for a checkpoint meanwhile.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/pacer.rs",
        changes: &[(
            "self.preloading == 0 || self.ahead >= cycle",
            "self.preloading == 0 || self.is_behind(cycle)",
        )],
        caught_by: &[
            "who_waits_for_a_cycle_does_not_move_what_comes_after_that_which_is_read_first",
        ],
    },
    Plant {
        name: "lasting-asked-again",
        what: "What a sink said cannot be done is asked for once more, and counts if it is done then.",
        package: "tidemill-sim",
        file: "crates/tidemill-flow/src/patience.rs",
        changes: &[
            (
                "Err(Trouble::Lasting(why)) => return Err(why),",
                "Err(Trouble::Lasting(why)) if patience.is_some() => return Err(why),",
            ),
            (
                "Err(Trouble::Passing(why)) => {",
                "Err(Trouble::Lasting(why) | Trouble::Passing(why)) => {",
            ),
        ],
        caught_by: &[
            "f5_row_6_row_24_slow_threads_and_disks_and_changes_of_threads_do_not_show",
            "row_2_row_40_whatever_happens_to_a_job_its_output_is_that_of_an_undisturbed_run",
        ],
    },
    Plant {
        name: "budget-of-each",
        what: "Each stage may take all that the states of a job may take together.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/budget.rs",
        changes: &[("(all > most.0).then(", "(all.min(self.of(node)) > most.0).then(")],
        caught_by: &["the_states_of_all_stages_count_together"],
    },
    Plant {
        name: "byte-record-elsewhere",
        what: "A byte record that is sent at random goes to another slice than it does as a column.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/partition/router.rs",
        changes: &[(
            "combine(false, &mut hash, hash_bytes(record));",
            "combine(true, &mut hash, hash_bytes(record));",
        )],
        caught_by: &["a_byte_record_goes_where_it_goes_as_a_column"],
    },
];
