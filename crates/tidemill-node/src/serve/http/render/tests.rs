//! One line a record, whatever it holds; what JSON says is said again.

use super::*;
use tidemill_types::{Offset, StreamletIx};

const AT: ReadPosition = ReadPosition { streamlet: StreamletIx(3), offset: Offset(17) };
use serde_json::json;
use tidemill_wire::records::Headers;

fn shown(key: Option<&[u8]>, value: Option<&[u8]>, values: ValueForm) -> Value {
    let record = Record { offset_delta: 0, timestamp_ms: -5, key, value, headers: Headers::NONE };
    let mut text = String::new();
    line(&mut text, AT, &record, values);
    assert_eq!(text.matches(['\n', '\r']).count(), 1, "{text}");
    assert!(text.ends_with("}\n"));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn values_are_json_text_or_bytes() {
    let of = |value: &[u8], values| shown(None, Some(value), values);
    assert_eq!(
        shown(Some(b"k"), Some(b" {\"n\":\r\n1} "), ValueForm::Json),
        json!({"streamlet": 3, "offset": 17, "timestamp": -5, "key": "k", "value": {"n": 1}})
    );
    assert_eq!(of(b"plain \"text\"\n", ValueForm::Json)["value"], "plain \"text\"\n");
    assert_eq!(of(b"[1]", ValueForm::Text)["value"], "[1]");
    assert_eq!(of(b"[1]", ValueForm::Base64)["value_base64"], "WzFd");
    assert_eq!(of(b"\xff\xfe", ValueForm::Json)["value_base64"], "//4=");
    assert_eq!(of(b"", ValueForm::Json)["value"], "");
    assert_eq!(shown(None, None, ValueForm::Json)["value"], Value::Null);
    assert_eq!(shown(Some(b"7"), None, ValueForm::Json)["key"], "7", "keys are text");
    assert_eq!(shown(Some(b"\xff"), None, ValueForm::Json)["key_base64"], "/w==");
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let deep = nested(DEPTH_MAX + 1);
    assert_eq!(of(deep.as_bytes(), ValueForm::Json)["value"], deep, "too deep to look at");
    assert!(of(nested(DEPTH_MAX).as_bytes(), ValueForm::Json)["value"].is_array());
    let brackets = json!({"[[\\\"": "[".repeat(1_000)});
    assert_eq!(of(brackets.to_string().as_bytes(), ValueForm::Json)["value"], brackets);
}

#[test]
fn a_record_without_timestamp_has_null() {
    for (timestamp_ms, expected) in [(-1, Value::Null), (-2, json!(-2)), (0, json!(0))] {
        let record = Record {
            offset_delta: 0,
            timestamp_ms,
            key: None,
            value: None,
            headers: Headers::NONE,
        };
        let mut text = String::new();
        line(&mut text, AT, &record, ValueForm::Json);
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["timestamp"], expected);
    }
}

#[test]
fn any_bytes_are_one_line() {
    let mut random = tidemill_env::World::simulated(7).world.random(1);
    for _ in 0..2_000 {
        let length = (random.next() % 12) as usize;
        let alphabet = b"{}[]\",:\\\n\r\t 1a\xff\x00\xe2\x80\xa8";
        let value: Vec<u8> =
            (0..length).map(|_| alphabet[random.next() as usize % alphabet.len()]).collect();
        for values in [ValueForm::Json, ValueForm::Text, ValueForm::Base64] {
            shown(Some(&value), Some(&value), values);
        }
    }
}

#[test]
fn base_64_is_that_of_the_standard() {
    for (plain, packed) in
        [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
    {
        let mut text = String::new();
        base64(&mut text, plain.as_bytes());
        assert_eq!(text, packed);
    }
}
