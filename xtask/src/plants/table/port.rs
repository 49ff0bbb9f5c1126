//! Planted bugs of the port that nodes speak on.

use super::Plant;

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "old-life-admitted",
        what: "A node that was replaced is believed as long as the view of the cluster lags.",
        package: "tidemill-cluster",
        file: "crates/tidemill-cluster/src/fence.rs",
        changes: &[
            ("newest.filter(|it| *it > incarnation)", "newest.filter(|_| false)"),
            ("if *newest > incarnation {", "if false {"),
        ],
        caught_by: &[
            "lower_incarnations_are_refused_once_a_newer_one_was_here",
            "an_older_incarnation_is_refused_even_if_the_view_lags",
        ],
    },
    Plant {
        name: "fenced-at-the-door-only",
        what: "A node whose life is over goes on over the connection that it has.",
        package: "tidemill-cluster",
        file: "crates/tidemill-cluster/src/port/connection.rs",
        changes: &[("options.newest.admit(&*options.fence, node, head.incarnation).err()", "None")],
        caught_by: &[
            "a_fenced_node_is_refused_at_the_door_and_at_each_request",
            "every_call_ends_and_no_old_life_is_believed_whatever_the_network_does",
        ],
    },
    Plant {
        name: "fence-without-proof",
        what: "Anyone who answers in a node's place can make it give up its life.",
        package: "tidemill-cluster",
        file: "crates/tidemill-cluster/src/handshake.rs",
        changes: &[(
            "Some(refusal) if is_proven || refusal.is_public() => {",
            "Some(refusal) => {",
        )],
        caught_by: &["a_fence_without_a_proof_is_not_believed"],
    },
    Plant {
        name: "frames-without-number",
        what: "A frame that was recorded opens again, and its request is handled twice.",
        package: "tidemill-cluster",
        file: "crates/tidemill-cluster/src/cipher.rs",
        changes: &[("        self.next += 1;\n", "")],
        caught_by: &[
            "what_opens_is_a_prefix_of_what_was_sent",
            "replayed_and_forged_frames_end_the_connection_and_reach_no_handler",
        ],
    },
    Plant {
        name: "answer-of-another-request",
        what: "An answer goes to whoever waits longest.",
        package: "tidemill-cluster",
        file: "crates/tidemill-cluster/src/peers/link_state.rs",
        changes: &[(
            "let call = self.state.lock().waiting.remove(&correlation);",
            "let _ = correlation;\n        let call = self.state.lock().waiting.pop_first().map(|(_, it)| it);",
        )],
        caught_by: &[
            "answers_go_in_any_order_and_belong_to_their_requests",
            "every_call_ends_and_no_old_life_is_believed_whatever_the_network_does",
        ],
    },
];
