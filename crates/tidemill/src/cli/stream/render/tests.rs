//! Values of every kind, as lines.

use super::*;
use tidemill_client::consumer::Headers;

fn line(format: RecordForm, key: Option<&[u8]>, value: Option<&[u8]>) -> String {
    let record = Received { offset: 7, timestamp_ms: 1500, key, value, headers: Headers::NONE };
    let mut into = Vec::new();
    render(&mut into, format, 2, &record);
    String::from_utf8_lossy(&into).into_owned()
}

#[test]
fn each_format_writes_one_line() {
    assert_eq!(line(RecordForm::Lines, None, Some(b"a value")), "a value\n");
    assert_eq!(line(RecordForm::Lines, None, None), "\n");
    assert_eq!(line(RecordForm::Hex, Some(b"k"), Some(b"\xff\x00")), "2\t7\t6b\tff00\n");
    assert_eq!(line(RecordForm::Hex, None, None), "2\t7\t-\t-\n");
    let head = r#"{"streamlet":2,"offset":7,"timestamp_ms":1500"#;
    let cases: [(&[u8], &str); 7] = [
        (b"text", r#""value":"text""#),
        (b"5", r#""value":"5""#),
        (b"{\n \"a\": [1, null]}", r#""value":{"a":[1,null]}"#),
        (
            b"{\"n\": 49.995729000000004, \"m\":123456789012345678901234567890, \"m\": 1.10}",
            r#""value":{"n":49.995729000000004,"m":123456789012345678901234567890,"m":1.10}"#,
        ),
        (b"[\"a \\\" b\" ,\t\"\\\\\"]", r#""value":["a \" b","\\"]"#),
        (b"{no json", r#""value":"{no json""#),
        (b"\xff", r#""value_hex":"ff""#),
    ];
    for (value, said) in cases {
        let expected = format!("{head},\"key\":\"k\",{said}}}\n");
        assert_eq!(line(RecordForm::Json, Some(b"k"), Some(value)), expected);
    }
    let expected = format!("{head},\"key\":null,\"value\":null}}\n");
    assert_eq!(line(RecordForm::Json, None, None), expected);
}
