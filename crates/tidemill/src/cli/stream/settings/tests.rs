//! Options become the names that nodes know.

use super::*;

#[test]
fn options_and_names_come_together_and_names_count() {
    let arguments = SettingArguments {
        active_groups: Some(4),
        fsync: Some("os".to_owned()),
        retention_time: Some(time("7d").unwrap()),
        retention_bytes: Some(size("1GiB").unwrap()),
        config: vec![pair(" tidemill.fsync = always ").unwrap()],
        ..SettingArguments::default()
    };
    let expected = [
        ("retention.bytes", "1073741824"),
        ("retention.ms", "604800000"),
        ("tidemill.active.groups", "4"),
        ("tidemill.fsync", "always"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(arguments.by_name(), BTreeMap::from(expected));
    assert_eq!((time("unlimited"), size("unlimited")), (Ok(-1), Ok(-1)));
    assert!(time("7 days of rain").is_err() && size("99999999999999GiB").is_err());
    // Cut to milliseconds it would be nothing, and all records would go.
    for text in ["1us", "0s", "1500us", "36501d"] {
        let says = format!("`{text}` is not whole milliseconds from 1ms to 36500d, or `unlimited`");
        assert_eq!(time(text), Err(says));
    }
    assert_eq!((time("1ms"), time("36500d")), (Ok(1), Ok(3_153_600_000_000)));
    for refused in [time("none"), size("none")] {
        assert!(refused.is_err_and(|it| it.ends_with("or `unlimited`")));
    }
    assert!(pair("no value").is_err() && pair("=x").is_err());
    assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
}
