//! Lines, keys, and what is refused.

use super::*;
use std::path::Path as FilePath;
use tidemill_env::World;
use tidemill_log::{Log, LogOptions, StreamSpec};

fn batch() -> AppendBatch {
    let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
    let world = World::simulated(7).world;
    let log = Log::open(&world, FilePath::new("data"), options).unwrap();
    AppendBatch::new(log.create("s", StreamSpec::default()).unwrap(), None, 0).unwrap()
}

fn key_of(field: &str, line: &str) -> Result<Option<String>, String> {
    let lines = Lines::Json { key: Some(field.to_owned()) };
    let key = lines.key(line.as_bytes())?;
    Ok(key.map(|it| String::from_utf8(it.into_owned()).unwrap()))
}

#[test]
fn lines_are_numbered_and_empty_ones_left_out() {
    let lines: Vec<_> = non_empty_lines(b"a\r\n\n  \nb\n\r\nc").collect();
    assert_eq!(lines, [(1, &b"a"[..]), (4, b"b"), (6, b"c")]);
    assert_eq!(non_empty_lines(b"").count() + non_empty_lines(b"\n\n").count(), 0);
}

#[test]
fn the_key_is_the_text_of_a_field() {
    assert_eq!(key_of("k", r#"{"k":"a b","v":1}"#), Ok(Some("a b".to_owned())));
    assert_eq!(key_of("k", r#"{"k":5}"#), Ok(Some("5".to_owned())));
    assert_eq!(key_of("k", r#"{"k":{"a":1}}"#), Ok(Some(r#"{"a":1}"#.to_owned())));
    for line in [r#"{"k":null}"#, r#"{"v":1}"#] {
        assert_eq!(key_of("k", line), Ok(None), "{line}");
    }
}

#[test]
fn a_line_without_a_key_is_counted_and_refused_where_there_must_be_one() {
    let lines = Lines::Json { key: Some("id".to_owned()) };
    let body = b"{\"id\":7}\n\n{\"Id\":8}\n{\"id\":null}\n";
    let mut taken = batch();
    lines.records(body, 0, false, &mut taken).unwrap();
    assert_eq!((taken.record_count, taken.keyless_count), (3, 2));
    let written = AppendReceipt { ranges: Vec::new(), record_count: 3, keyless_count: 2 };
    assert_eq!(answer(&written, true)["without_key"], 2);
    assert_eq!(answer(&written, false).get("without_key"), None, "nobody asked for keys");
    let refused =
        |lines: &Lines, body: &[u8]| lines.records(body, 0, true, &mut batch()).unwrap_err();
    let problem = refused(&lines, body);
    assert!(problem.message.starts_with("there is no field `id`, the key"), "{problem:?}");
    assert_eq!(problem.details["line"], 3);
    assert!(refused(&Lines::Json { key: None }, b"{}").message.contains("with `key`"));
    assert!(refused(&Lines::Text, b"a").message.contains("no key"));
}

#[test]
fn what_is_no_json_is_refused_with_its_column() {
    for line in
        ["{", "a", "{\"a\":1} x", "\u{1}", "{\"a\":}", "{\"a\":\"\\ud800\"}", "[1]", "5", "null"]
    {
        let error = Lines::Json { key: None }.key(line.as_bytes()).unwrap_err();
        assert!(error.starts_with("not JSON:") && !error.contains(" line "), "{error}");
        assert!(key_of("k", line).is_err());
        assert_eq!(Lines::Text.key(line.as_bytes()), Ok(None));
    }
    assert!(Lines::Json { key: None }.key(b"{\"a\":\"\xff\"}").is_err());
    let list = Lines::Json { key: None }.key(b"[1]").unwrap_err();
    assert!(list.contains("expected an object") && list.contains("format=text"), "{list}");
    let deep = "{\"a\":".repeat(100_000);
    assert!(Lines::Json { key: None }.key(deep.as_bytes()).is_err());
}

proptest::proptest! {
    #[test]
    fn row_34_any_body_is_lines_with_keys_or_refusals(
        text in "[ -~\n\r\t\u{e9}]{0,200}", bytes: Vec<u8>, field in "[a-k\"]{0,3}",
    ) {
        for body in [text.as_bytes(), &bytes] {
            let lines: Vec<_> = non_empty_lines(body).collect();
            let breaks = body.iter().filter(|it| **it == b'\n').count();
            proptest::prop_assert!(lines.iter().all(|(number, _)| (1..=breaks + 1).contains(number)));
            let json = Lines::Json { key: Some(field.clone()) };
            for (_, line) in lines {
                let key = json.key(line);
                let is_json = serde_json::from_slice::<Value>(line).is_ok();
                proptest::prop_assert!(is_json || key.is_err() || key == Ok(None));
                proptest::prop_assert_eq!(Lines::Text.key(line), Ok(None));
            }
        }
    }
}
