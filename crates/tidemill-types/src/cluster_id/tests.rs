//! Ids that are made, chosen and refused.

use super::*;

#[test]
fn made_ids_have_22_characters_and_parse_again() {
    assert_eq!(ClusterId::from_bits(0).as_str(), "A".repeat(22));
    assert_eq!(ClusterId::from_bits(u128::MAX).as_str(), format!("{}w", "_".repeat(21)));
    let id = ClusterId::from_bits(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);
    assert_eq!(id.as_str().parse(), Ok(id.clone()));
    assert_eq!(serde_json::from_str::<ClusterId>(&format!("\"{id}\"")).expect("it parses"), id);
}

#[test]
fn refuses_other_characters_and_lengths() {
    for text in ["", "two words", "ä", "a/b", "a\n", &"x".repeat(65)] {
        assert!(text.parse::<ClusterId>().is_err(), "{text:?}");
        assert!(serde_json::from_value::<ClusterId>(text.into()).is_err(), "{text:?}");
    }
    let long = "x".repeat(1 << 20).parse::<ClusterId>().expect_err("it is too long");
    assert!(long.to_string().len() < 200);
    assert!("x".repeat(64).parse::<ClusterId>().is_ok());
}
