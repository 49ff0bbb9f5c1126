//! What people read.

use super::*;
use tidemill_wire::kafka::text;

#[test]
fn a_refusal_says_the_words_the_code_and_what_the_node_said() {
    assert_eq!(Refusal::of(0, Some(&text("fine"))), None);
    let refusal = Refusal::of(36, Some(&text("`a` is taken"))).unwrap();
    let said = "a stream of this name exists [TopicAlreadyExists] (`a` is taken)";
    assert_eq!(refusal.to_string(), said);
    assert_eq!(Refusal::of(999, None).unwrap().to_string(), "Unknown(999)");
}

#[test]
fn a_node_that_is_not_there_is_told_with_where_and_why() {
    let error = CallError::Unreachable { address: "h:1".into(), reason: "refused".into() };
    assert_eq!(error.to_string(), "no node at h:1: refused", "it may be one of any cluster");
}
