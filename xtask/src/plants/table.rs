//! The planted bugs of the engine, and the tables of the other rooms: results of jobs, the library, the
//! log, Kafka's protocol, sources that get more slices, states and their checkpoints, and
//! nodes among others, and the port that they speak on.

mod cluster;
mod growth;
mod kafka;
mod lazy;
mod library;
mod log;
mod port;
mod replica;
mod results;
mod state;

/// A bug, the place it is planted at, and the tests that must fail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plant {
    pub(super) name: &'static str,
    /// The effect for a user, in a sentence.
    pub(super) what: &'static str,
    pub(super) package: &'static str,
    /// From the root of the repository.
    pub(super) file: &'static str,
    /// Text that the file has exactly once, and the text that replaces it.
    pub(super) changes: &'static [(&'static str, &'static str)],
    /// Tests of the package, all of which must fail.
    pub(super) caught_by: &'static [&'static str],
}

/// All of them.
pub(super) fn plants() -> impl Iterator<Item = &'static Plant> {
    let parts = [
        PLANTS,
        results::PLANTS,
        library::PLANTS,
        log::PLANTS,
        kafka::PLANTS,
        growth::PLANTS,
        lazy::PLANTS,
        state::PLANTS,
        cluster::PLANTS,
        port::PLANTS,
        replica::PLANTS,
    ];
    parts.into_iter().flatten()
}

const PLANTS: &[Plant] = &[
    Plant {
        name: "acknowledged-before-synced",
        what: "A chunk counts when it is written, whatever `fsync` says.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/append.rs",
        changes: &[("let waits = fsync == Fsync::Always;", "let waits = false;")],
        caught_by: &["n1_n2_row_17_nothing_acknowledged_is_lost_with_fsync_always"],
    },
    Plant {
        name: "name-not-synced",
        what: "The folder of a new segment is not synced: after a power cut the file has no name.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/log_core.rs",
        changes: &[(
            "        self.world.disk.sync_dir(folder)?;\n        self.world.disk.sync_dir(&self.pool_folder)\n",
            "        let _ = folder;\n        Ok(())\n",
        )],
        caught_by: &["n1_n2_row_17_nothing_acknowledged_is_lost_with_fsync_always"],
    },
    Plant {
        name: "rename-not-synced",
        what: "The folder is not synced after new metadata were renamed into place.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/meta.rs",
        changes: &[(
            "        put_in_force(disk, &path)?;\n        disk.sync_dir(folder)\n",
            "        put_in_force(disk, &path)\n",
        )],
        caught_by: &["e1_a_power_cut_at_any_step_leaves_the_old_or_the_new"],
    },
    Plant {
        name: "half-renamed-believed",
        what: "Metadata whose renaming failed half way are acted upon before they are durable.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/meta.rs",
        changes: &[("if candidate != path {\n", "if false {\n")],
        caught_by: &["row_15_a_change_that_failed_half_way_stays_once_it_was_seen"],
    },
    Plant {
        name: "unknown-folder-deleted",
        what: "A stream's folder whose metadata are gone is emptied when the log is opened.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/log/startup.rs",
        changes: &[(
            "            return Err(damaged(\"it has files and no metadata\"));\n",
            "            self.finish_deletion(folder, &files)?;\n            return Ok(None);\n",
        )],
        caught_by: &["n4_a_stream_without_good_metadata_is_set_aside_and_nothing_is_deleted"],
    },
    Plant {
        name: "producers-told-first",
        what: "Producers hear that a chunk counts before readers that wait for it do.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/offset_tracker.rs",
        changes: &[(
            "        self.data.into_iter().for_each(|notice| notice());\n        self.durable.into_iter().for_each(|(notice, outcome)| notice(outcome));\n",
            "        self.durable.into_iter().for_each(|(notice, outcome)| notice(outcome));\n        self.data.into_iter().for_each(|notice| notice());\n",
        )],
        caught_by: &["each_notice_is_given_once"],
    },
    Plant {
        name: "window-of-one",
        what: "Only the last chunk of a producer is known again, not the last five.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/producer/state.rs",
        changes: &[("pub(crate) const WINDOW: usize = 5;", "pub(crate) const WINDOW: usize = 1;")],
        caught_by: &["r1_r2_each_of_the_last_five_is_recognized_and_the_sixth_is_out_of_order"],
    },
    Plant {
        name: "aborted-forgotten",
        what: "Which transactions were aborted is forgotten when the node starts again.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/partition/recovery.rs",
        changes: &[(
            "found.push(AbortedRange { producer_id, first, marker, stable });",
            "let _ = AbortedRange { producer_id, first, marker, stable };",
        )],
        caught_by: &["r1_r4_what_is_known_is_the_same_after_a_restart_with_snapshots_and_without"],
    },
    Plant {
        name: "length-believed",
        what: "Memory for a frame is taken as soon as its length is claimed.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/frame.rs",
        changes: &[(".saturating_sub(have).min(most)", ".saturating_sub(have).max(most)")],
        caught_by: &["row_33_a_claimed_length_takes_no_memory"],
    },
    Plant {
        name: "cut-after-output",
        what: "Sinks commit a cycle before the ledger has where it ended.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/commit.rs",
        changes: &[
            (
                "    record(job, ledger, &entries, complete)?;\n    committer.cut",
                "    committer.cut",
            ),
            (
                "    for (stage, sink, cycle, held) in due {\n        did = true;\n        if cycle > held {\n            commit_sink(job, stage, &sink, cycle)?;\n        }\n        committer.inner.lock().expect(\"no panic while held\").commit(job, stage, cycle);\n    }\n",
                "    for (stage, sink, cycle, held) in due {\n        did = true;\n        if cycle > held {\n            commit_sink(job, stage, &sink, cycle)?;\n        }\n        committer.inner.lock().expect(\"no panic while held\").commit(job, stage, cycle);\n    }\n    record(job, ledger, &entries, complete)?;\n",
            ),
        ],
        caught_by: &["a_sink_has_nothing_that_the_ledger_does_not_hold"],
    },
    Plant {
        name: "replay-unfiltered",
        what: "A replay writes the last cycle that a sink holds once more.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/sink_lane.rs",
        changes: &[("if cycle > self.held {", "if cycle >= self.held {")],
        caught_by: &["a_resumed_job_writes_each_cycle_once"],
    },
    Plant {
        name: "credit-leak",
        what: "A byte of each block is never taken off a link again.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/sink_lane.rs",
        changes: &[("job.release(*link, *bytes)", "job.release(*link, bytes.saturating_sub(1))")],
        caught_by: &["every_record_counts_once_and_in_order"],
    },
    Plant {
        name: "kept-rows-late",
        what: "What a source had read when the number of threads changed in a replay goes into the next cycle.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/source_lane.rs",
        changes: &[("            && self.shed.is_empty()\n", "")],
        caught_by: &["a_replay_whose_threads_change_puts_each_record_into_its_cycle"],
    },
    Plant {
        name: "checkpoint-not-synced",
        what: "A batch of a checkpoint is acknowledged before it is durable.",
        package: "tidemill-checkpoints",
        file: "crates/tidemill-checkpoints/src/indexed.rs",
        changes: &[(
            "        let synced = writer.file.sync().and_then(",
            "        let synced = io::Result::Ok(()).and_then(",
        )],
        caught_by: &["e1_row_17_what_was_committed_is_there_after_any_kill_and_power_cut"],
    },
    Plant {
        name: "checkpoint-half-written",
        what: "What a failed append of a checkpoint left is not cut off before the next.",
        package: "tidemill-checkpoints",
        file: "crates/tidemill-checkpoints/src/indexed.rs",
        changes: &[(
            "writer.file.truncate(writer.length).and_then(|()| writer.file.sync());",
            "io::Result::Ok(());",
        )],
        caught_by: &[
            "row_15_after_an_error_nothing_acknowledged_is_lost_and_nothing_else_is_acknowledged",
        ],
    },
    Plant {
        name: "checkpoint-index-not-synced",
        what: "An index of checkpoints is put in force before it is durable, and files go that it needs.",
        package: "tidemill-checkpoints",
        file: "crates/tidemill-checkpoints/src/indexed/flush.rs",
        changes: &[(
            "file.append_direct(base.bytes()).and_then(|()| file.sync()) {",
            "file.append_direct(base.bytes()) {",
        )],
        caught_by: &["e1_row_17_what_was_committed_is_there_after_any_kill_and_power_cut"],
    },
    Plant {
        name: "sent-unchecked",
        what: "A long chunk is sent as it stands in its file, whatever became of it.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/read/outgoing_chunk.rs",
        changes: &[("count == into.len() && self.reference.accepts(into)", "count == into.len()")],
        caught_by: &["row_20_damage_is_found_when_a_chunk_is_sent_and_then_told"],
    },
    Plant {
        name: "damage-not-told",
        what: "Damage that is found when a chunk is sent closes one connection after the other, and no reader is told.",
        package: "tidemill-log",
        file: "crates/tidemill-log/src/segment.rs",
        changes: &[(
            "self.suspect.store(true, Ordering::SeqCst);",
            "self.suspect.store(false, Ordering::SeqCst);",
        )],
        caught_by: &["row_20_damage_is_found_when_a_chunk_is_sent_and_then_told"],
    },
    Plant {
        name: "row-not-put-aside",
        what: "A row that changes while a checkpoint is made is written out as it became.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/structure/dirty_rows.rs",
        changes: &[(
            "if self.is_on && self.marks.mark(row) {",
            "if self.is_on && self.marks.mark(row) && false {",
        )],
        caught_by: &["a_checkpoint_has_what_was_there_when_it_began"],
    },
    Plant {
        name: "rows-not-put-aside",
        what: "Rows that change together while a checkpoint is made are written out as they became.",
        package: "tidemill-state",
        file: "crates/tidemill-state/src/structure/dirty_stamps.rs",
        changes: &[(
            "frozen.iter().for_each(|row| self.before.put_row(of.number(*row), value_of(*row, of)));",
            "let _ = frozen;",
        )],
        caught_by: &["what_changed_in_an_interval_or_all_is_written_as_it_was_at_its_end"],
    },
    Plant {
        name: "manifest-first",
        what: "A manifest is written before the runs that it names.",
        package: "tidemill-checkpoints",
        file: "crates/tidemill-checkpoints/src/checkpoints.rs",
        changes: &[(
            "        // What the manifest names is there before it is.\n        self.backend.commit(&mut self.batch)?;\n        self.settle(manifest)\n",
            "        let mut runs = std::mem::take(&mut self.batch);\n        self.settle(manifest)?;\n        Ok(self.backend.commit(&mut runs)?)\n",
        )],
        caught_by: &["e1_row_17_a_checkpoint_is_whole_or_not_there_after_any_kill_and_power_cut"],
    },
    Plant {
        name: "kept-runs-deleted",
        what: "What a checkpoint that is kept needs is deleted with the one after it.",
        package: "tidemill-checkpoints",
        file: "crates/tidemill-checkpoints/src/checkpoints.rs",
        changes: &[(
            "self.complete.values().flat_map(|it| it.runs()).copied().collect();",
            "self.newest().into_iter().flat_map(|it| it.runs()).copied().collect();",
        )],
        caught_by: &["what_is_kept_stays_until_it_is_deleted"],
    },
    Plant {
        name: "deleted-first",
        what: "On an object store, what a batch deletes goes before what it puts is there.",
        package: "tidemill-backends",
        file: "crates/tidemill-backends/src/object.rs",
        changes: &[(
            "            self.put_all(&changes.puts).await?;\n            self.delete_all(&changes.deletes).await",
            "            self.delete_all(&changes.deletes).await?;\n            self.put_all(&changes.puts).await",
        )],
        caught_by: &["nothing_is_deleted_before_all_that_a_batch_puts_is_there"],
    },
    Plant {
        name: "offset-not-asked",
        what: "Rows go to another cluster as soon as the id is taken over, whether or not it could be read what counts.",
        package: "tidemill-client",
        file: "crates/tidemill-client/src/transactions/takeover.rs",
        changes: &[(
            "        let (identity, coordinator) = taken?;\n",
            "        let (identity, coordinator) = taken?;\n        self.identity = Some(identity);\n",
        )],
        caught_by: &["nothing_is_sent_while_it_is_not_known_what_counts"],
    },
    Plant {
        name: "lost-sent-again",
        what: "What a lost connection took along of a transaction is sent again in it, and may come twice.",
        package: "tidemill-client",
        file: "crates/tidemill-client/src/transactions.rs",
        changes: &[(
            "Err(error @ AdminError::Call(CallError::Lost { .. })) => Ok(Err(error)),",
            "Err(error @ AdminError::Call(CallError::Closed)) => Ok(Err(error)),",
        )],
        caught_by: &["what_was_lost_on_its_way_is_not_sent_again_under_its_epoch"],
    },
    Plant {
        name: "led-anew-written",
        what: "A sink goes on with partitions whose broker was away when its last transaction ended.",
        package: "tidemill-client",
        file: "crates/tidemill-client/src/transactions.rs",
        changes: &[(
            "        open_transactions::check_epochs(&self.epochs, &metadata, stream)?;\n",
            "        let _unused = open::check_epochs(&self.epochs, &metadata, stream);\n",
        )],
        caught_by: &["rows_that_have_lost_their_end_get_it_before_anything_else_is_written"],
    },
    Plant {
        name: "source-at-its-start",
        what: "A job that goes on from a checkpoint reads its input from the start.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/engine/open.rs",
        changes: &[(
            "            self.seek(plan, *stage, source)?;\n",
            "            let _unused = self.seek(plan, *stage, &mut OpenSource {\n                slice: SliceId(u32::MAX),\n                source: std::mem::replace(&mut source.source, open_sources(plan)?.remove(0).1.source),\n            });\n",
        )],
        caught_by: &["a_job_that_was_killed_goes_on_from_its_checkpoint"],
    },
    Plant {
        name: "unsynced-ledger-believed",
        what: "A ledger that can be read is appended to, though a sync of it may have failed before.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/ledger.rs",
        changes: &[(
            "        let file = Self::write_beside(&**disk, folder, &active)?;\n",
            "        let _unused = Self::write_beside;\n        let mut file = disk.open_append(&active.path)?;\n        file.truncate(active.whole)?;\n",
        )],
        caught_by: &["row_15_what_a_failed_sync_gave_up_is_not_believed_without_being_written"],
    },
    Plant {
        name: "last-batch-by-its-directory",
        what: "Of the last batch of a store of checkpoints the directory is believed, though its values may not be there.",
        package: "tidemill-checkpoints",
        file: "crates/tidemill-checkpoints/src/indexed/recovery.rs",
        changes: &[(
            "let is_durable = !is_last || end < length;",
            "let is_durable = !is_last || end <= length;",
        )],
        caught_by: &["row_19_a_last_batch_of_which_the_end_came_first_is_cut"],
    },
    Plant {
        name: "unsynced-batch-believed",
        what: "The last batch of a store of checkpoints is believed, though its sync may have failed.",
        package: "tidemill-checkpoints",
        file: "crates/tidemill-checkpoints/src/indexed/recovery.rs",
        changes: &[(
            "        self.world.disk.open_random_access(path)?.rewrite(from, length)\n",
            "        let _unused = (path, from);\n        Ok(())\n",
        )],
        caught_by: &["row_15_a_batch_that_a_failed_sync_gave_up_is_lost_with_nothing_behind_it"],
    },
    Plant {
        name: "ledger-cut-early",
        what: "The ledger is cut behind the newest checkpoint, though one that is kept is older.",
        package: "tidemill-checkpoints",
        file: "crates/tidemill-checkpoints/src/checkpoints.rs",
        changes: &[(
            ".map(|(_, manifest)| manifest.cycle).min()",
            ".map(|(_, manifest)| manifest.cycle).max()",
        )],
        caught_by: &["a_life_that_begins_with_a_checkpoint_knows_those_of_the_life_before"],
    },
    Plant {
        name: "windows-again",
        what: "A window that closed since its slice was saved is written again after a crash.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/operator_lane.rs",
        changes: &[("        self.output.emitted.clear();\n", "")],
        caught_by: &["a_window_that_was_written_is_not_written_again"],
    },
    Plant {
        name: "silence-is-the-end",
        what: "When all sources are idle event time goes to its end, and what comes later is late.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/operator_lane.rs",
        changes: &[("lowest == Micros::MAX && !ended;", "false;")],
        caught_by: &["a_silence_makes_nothing_late"],
    },
    Plant {
        name: "event-time-goes-back",
        what: "A source slice that was idle takes event time back in a job that resumes.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/plan.rs",
        changes: &[("watermarks[stage.index()].max(lowest);", "lowest;")],
        caught_by: &["event_time_of_a_resumed_job_does_not_go_back"],
    },
    Plant {
        name: "idle-at-once",
        what: "A source that has nothing when it is asked first is idle at once, and what it brings then is late.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/source_lane.rs",
        changes: &[("self.last_row_us = job.now_us().max(1);", "self.last_row_us = 0;")],
        caught_by: &["a_slice_that_was_just_asked_is_not_idle"],
    },
    Plant {
        name: "letters-wait-for-themselves",
        what: "A slice waits for room for dead letters that its own cycle keeps from going.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/job.rs",
        changes: &[(
            "(self.letters_fit() || is_begun())",
            "(self.letters_fit() || (is_begun() && false))",
        )],
        caught_by: &["a_job_with_nothing_but_bad_records_comes_to_its_end"],
    },
    Plant {
        name: "stopped-unsaved",
        what: "A job that saves its slices one by one stops without saving the rest.",
        package: "tidemill-flow",
        file: "crates/tidemill-flow/src/runtime/checkpoint/uncoordinated.rs",
        changes: &[("LAST_US: u64 = 3_000_000", "LAST_US: u64 = 0")],
        caught_by: &["a_job_that_is_stopped_loses_nothing"],
    },
    Plant {
        name: "told-and-removed",
        what: "A member that was told a generation as another's session ended is thrown out of it.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/group/rebalance.rs",
        changes: &[(
            "let still = self.members.get(&id).filter(|it| it.deadline_ms <= now_ms);",
            "let still = self.members.get(&id);",
        )],
        caught_by: &["who_is_told_a_generation_as_another_goes_is_in_it"],
    },
    Plant {
        name: "end-below-start",
        what: "Readers of committed records are sent to where an open transaction began, though that was deleted.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/partition/readers.rs",
        changes: &[(".max(self.streamlet.start_offset()).min(watermark)", ".min(watermark)")],
        caught_by: &["the_end_of_committed_records_is_not_below_the_start_of_the_log"],
    },
    Plant {
        name: "offsets-outlive-topic",
        what: "A topic that is deleted leaves the offsets of groups behind.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/broker.rs",
        changes: &[("        self.groups.forget_topics(&gone);\n", "")],
        caught_by: &["who_deletes_beside_the_protocol_leaves_nothing_either"],
    },
    Plant {
        name: "order-of-asking",
        what: "A client without a session does not get what it names first, but what comes next in turn.",
        package: "tidemill-broker",
        file: "crates/tidemill-broker/src/session.rs",
        changes: &[("self.due.make_contiguous().sort_by_key(order);", "let _unused = order;")],
        caught_by: &["without_a_session_partitions_are_served_in_the_order_of_asking"],
    },
    Plant {
        name: "given-up-renumbered",
        what: "What may be in the log is sent under another producer id when a chunk before it was given up.",
        package: "tidemill-client",
        file: "crates/tidemill-client/src/producer/queue.rs",
        changes: &[("(!self.gap || may_be_there)", "!self.gap")],
        caught_by: &[
            "no_chunk_is_there_twice_when_others_are_given_up",
            "what_may_be_in_the_log_keeps_its_number_when_one_before_it_is_given_up",
        ],
    },
];
