//! Every form, and what is none.

use super::*;

#[test]
fn every_form_is_read() {
    assert_eq!(start("earliest"), Ok(Start::Earliest));
    assert_eq!(start("latest"), Ok(Start::Latest));
    assert_eq!(start("17"), Ok(Start::Offset(17)));
    assert_eq!(start("1970-01-01T00:00:01.5Z"), Ok(Start::Time(1500)));
    assert_eq!(start("1970-01-01T02:00:00+02:00"), Ok(Start::Time(0)));
    for text in ["-1", "soon", "", "2026-01-31", "99999999999999999999"] {
        assert!(start(text).is_err(), "{text}");
    }
}
