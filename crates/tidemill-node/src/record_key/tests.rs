//! Keys as they are written, and lines that have none.

use super::*;

fn key(line: &str, names: &[&str]) -> Result<Option<String>, String> {
    let key = record_key(line.as_bytes(), names.iter().copied());
    let text = |it: Cow<'_, [u8]>| String::from_utf8(it.into_owned()).expect("text");
    key.map(|it| it.map(text)).map_err(|error| error.to_string())
}

#[test]
fn what_is_no_text_is_the_key_as_it_is_written() {
    for value in [
        "18446744073709551616",
        "18446744073709551617",
        "340282366920938463463374607431768211455",
        "1.10",
        "1E2",
        "-0",
        "1e400",
        "true",
        "{\"b\": 1, \"a\":[ 1.0 ]}",
    ] {
        let line = format!(" {{\"v\":1e999, \"k\" :  {value} , \"w\":null}} ");
        assert_eq!(key(&line, &["k"]), Ok(Some(value.to_owned())));
        assert_eq!(key(&format!("{{\"a\":{line}}}"), &["a", "k"]), Ok(Some(value.to_owned())));
    }
}

#[test]
fn a_text_is_the_key_without_quotes_and_escapes() {
    assert_eq!(key("{\"k\":\"a \\\"b\\u00e9\"}", &["k"]), Ok(Some("a \"b\u{e9}".to_owned())));
    assert_eq!(key("{\"\\u006b\":\"x\"}", &["k"]), Ok(Some("x".to_owned())), "a name, too");
    assert_eq!(key("{\"k\":1,\"k\":\"\"}", &["k"]), Ok(Some(String::new())), "the last counts");
}

#[test]
fn lines_without_the_field_have_no_key_and_what_is_no_json_is_refused() {
    for line in ["{}", "[1]", "5", "1e400", "\"k\"", "{\"k\":null}", "{\"a\":{\"k\":1}}"] {
        assert_eq!(key(line, &["k"]), Ok(None), "{line}");
    }
    assert_eq!(key("{\"a\":1e400}", &["a", "k"]), Ok(None));
    for line in
        ["", "{", "k", "{\"k\":1} x", "{\"k\":1,\"a\":}", "{\"k\":01}", "{\"k\":\"\\ud800\"}"]
    {
        assert!(key(line, &["k"]).is_err(), "{line}");
    }
    assert!(record_key(b"{\"k\":1,\"a\":\"\xff\"}", ["k"]).is_err());
}
