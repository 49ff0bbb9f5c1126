//! What is said beside an error.

use super::*;

#[test]
fn where_no_node_is_it_is_said_how_to_start_one() {
    let (address, reason) = ("h:1".to_owned(), "refused".to_owned());
    let error = AdminError::Call(CallError::Unreachable { address, reason });
    let said = hint(&error).expect("something can be done");
    assert!(said.contains("tidemill serve") && said.contains("--bootstrap"), "{said}");
    assert_eq!(hint(&AdminError::Call(CallError::Closed)), None);
}
