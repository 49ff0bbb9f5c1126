//! Records end where their format says, whatever was read of the file so far.

use super::*;
use proptest::prelude::*;

/// All records of a text, `!` before bad ones.
fn frames(framing: Framing, text: &str) -> Vec<String> {
    let (mut bytes, mut found) = (text.as_bytes(), Vec::new());
    while !bytes.is_empty() {
        let frame = framing.frame(bytes, true).expect("the last piece always ends");
        assert!(frame.len > 0 && frame.body <= frame.len);
        let body = String::from_utf8_lossy(&bytes[..frame.body]).into_owned();
        let breaks = bytes[..frame.len].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(frame.lines as usize, breaks, "{body:?}");
        match frame.is {
            Framed::Record => found.push(body),
            Framed::Bad(_) => found.push(format!("!{body}")),
            Framed::Skip => {}
        }
        bytes = &bytes[frame.len..];
    }
    found
}

#[test]
fn lines_end_with_either_break() {
    assert_eq!(frames(Framing::Text, "a\r\n\nb\n"), ["a", "", "b"]);
    assert_eq!(frames(Framing::Text, "a\nb"), ["a", "b"]);
    assert_eq!(frames(Framing::Json, "{}\r\n  \r\n\n{}"), ["{}", "{}"]);
    assert_eq!(frames(Framing::Influx, "# x\n\nm v=1\n #y\n"), ["m v=1"]);
    assert_eq!(
        frames(Framing::Csv { fields: 2, delimiter: b',' }, "a,b\n\nc,d\r\n"),
        ["a,b", "c,d"]
    );
}

#[test]
fn quoted_fields_hold_line_breaks() {
    let csv = Framing::Csv { fields: 2, delimiter: b',' };
    assert_eq!(frames(csv, "\"a\nb\",c\nd,e\n"), ["\"a\nb\",c", "d,e"]);
    assert_eq!(frames(csv, "a,\"b \"\"x\"\"\n,\"\nc,d"), ["a,\"b \"\"x\"\"\n,\"", "c,d"]);
    assert_eq!(frames(csv, "a,b\"c\nd,e\n"), ["a,b\"c", "d,e"], "a quote within a field is text");
}

#[test]
fn a_stray_quote_costs_one_line() {
    let csv = Framing::Csv { fields: 2, delimiter: b',' };
    assert_eq!(frames(csv, "a,\"b\nc,d\ne,f\n"), ["!a,\"b", "c,d", "e,f"]);
    assert_eq!(frames(csv, "a,\"b\nc,\"d\ne,f\n"), ["!a,\"b", "!c,\"d", "e,f"]);
    assert_eq!(frames(csv, "\"\n"), ["!\""]);
    assert_eq!(frames(csv, "\"a\"\n\"b\"\n"), ["\"a\"", "\"b\""], "the reader counts fields");
}

proptest! {
    #[test]
    fn what_is_seen_so_far_does_not_move_an_end(text in "[ab\",;\r\n]{0,40}", fields in 0_usize..4) {
        let bytes = text.as_bytes();
        for framing in [Framing::Text, Framing::Json, Framing::Influx, Framing::Csv { fields, delimiter: b',' }, Framing::Csv { fields, delimiter: b';' }] {
            let whole = framing.frame(bytes, false);
            for seen in 0..bytes.len() {
                if let Some(frame) = framing.frame(&bytes[..seen], false) {
                    prop_assert_eq!(Some(frame), whole, "{:?} {:?}", framing, seen);
                }
            }
        }
    }
}

#[test]
fn a_record_of_a_stream_is_one_point_whose_texts_may_hold_line_breaks() {
    let only = |bytes: &'static str| {
        let point = Framing::Influx.only(bytes.as_bytes());
        point.map(|it| std::str::from_utf8(it).expect("text"))
    };
    let point = "log,h=a msg=\"one\ntwo \\\" three\n\",n=1i 5";
    assert_eq!(only(point), Ok(point));
    assert_eq!(only("m v=1 2\r\n"), Ok("m v=1 2"));
    assert_eq!(only("m v=1\nm v=2"), Err(SEVERAL_LINES));
    assert_eq!(only("m v=\"a\nb\" 1\nm v=2"), Err(SEVERAL_LINES));
    // A quote that nothing closes opens no text.
    assert_eq!(only("m v=\"a\nm v=2"), Err(SEVERAL_LINES));
}
