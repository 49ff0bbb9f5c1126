//! Planted bugs of nodes among others: incarnations, leases, watches and elections.

use super::Plant;

/// See the module.
pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "lower-incarnation-accepted",
        what: "A node that was thought dead is listened to although a newer life of it has registered.",
        package: "tidemill-coord",
        file: "crates/tidemill-coord/src/membership/view.rs",
        changes: &[(
            "        if incarnation < newest {\n",
            "        if incarnation < newest && newest == Incarnation(0) {\n",
        )],
        caught_by: &[
            "a_lower_incarnation_is_refused_and_so_is_one_without_a_lease",
            "e3_e4_row_5_row_30_five_nodes_agree_whatever_happens",
        ],
    },
    Plant {
        name: "lease-believed-after-pause",
        what: "A node that stood still for longer than its lease goes on as if it held it.",
        package: "tidemill-coord",
        file: "crates/tidemill-coord/src/membership/member/state.rs",
        changes: &[("if now_us < lease.until_us {", "if now_us < lease.until_us.max(u64::MAX) {")],
        caught_by: &[
            "a_node_whose_lease_ended_is_fenced_and_registers_anew",
            "e3_e4_row_5_row_30_five_nodes_agree_whatever_happens",
        ],
    },
    Plant {
        name: "watch-from-compacted",
        what: "A watch that missed changes goes on at the newest revision, without them.",
        package: "tidemill-coord",
        file: "crates/tidemill-coord/src/membership/member/watcher.rs",
        changes: &[(
            "    let after = list(shared, fold)?;\n",
            "    let after = match fold.view().revision {\n        Revision::NONE => list(shared, fold)?,\n        _ => shared.coordinator.list(\"\")?.revision,\n    };\n",
        )],
        caught_by: &[
            "e4_row_30_a_watch_that_missed_changes_lists_the_table_anew",
            "e3_e4_row_5_row_30_five_nodes_agree_whatever_happens",
        ],
    },
    Plant {
        name: "incarnation-told-early",
        what: "A node uses an incarnation although the answer to its registration was lost.",
        package: "tidemill-coord",
        file: "crates/tidemill-coord/src/membership/member/keeper.rs",
        changes: &[(
            "        Err(error) => Err(JoinError::Coordinator(error)),\n",
            "        Err(_) => {\n            let registered = Registered { cluster, incarnation, revision: known };\n            Ok(JoinAttempt::Registered(registered, lease.expect(\"as above\")))\n        }\n",
        )],
        caught_by: &["e3_e4_row_5_row_30_five_nodes_agree_whatever_happens"],
    },
    Plant {
        name: "counter-not-compared",
        what: "Two nodes that register at once draw one incarnation.",
        package: "tidemill-coord",
        file: "crates/tidemill-coord/src/membership/registration.rs",
        changes: &[("        .require(&counter_key, modified(&found.counter))\n", "")],
        caught_by: &["nodes_that_register_at_once_draw_different_incarnations"],
    },
    Plant {
        name: "change-without-election",
        what: "A controller that was paused changes the table after another was elected.",
        package: "tidemill-coord",
        file: "crates/tidemill-coord/src/membership/controller.rs",
        changes: &[(
            "    Transaction::new().require(&RecordKey::Controller.key(), controller.elected)\n",
            "    let _elected = controller.elected;\n    Transaction::new()\n",
        )],
        caught_by: &[
            "a_deposed_controller_changes_nothing",
            "e3_e4_row_5_row_30_five_nodes_agree_whatever_happens",
        ],
    },
    Plant {
        name: "stale-copy-promoted",
        what: "A copy that lacks acknowledged records leads a streamlet whose leader is lost.",
        package: "tidemill-coord",
        file: "crates/tidemill-coord/src/membership/failover.rs",
        changes: &[(
            "nodes.get(node).filter(|_| assignment.in_sync.contains(node))?;",
            "nodes.get(node)?;",
        )],
        caught_by: &[
            "the_last_copy_in_sync_is_waited_for",
            "epochs_grow_and_only_copies_in_sync_lead",
        ],
    },
];
