//! A table of bad bodies, each with the message that its sender gets.

use super::*;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    job: String,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    resume: bool,
}

const KIND: DocumentKind = DocumentKind { name: "an order", form: "`{\"job\": TEXT}`" };

fn refusal(bytes: &[u8]) -> String {
    read_document::<Order>(bytes, &KIND).expect_err("it is wrong").message
}

#[test]
fn bad_bodies_are_refused_with_the_place_and_a_way_out() {
    for (body, expected) in [
        ("", "the body is empty, and should be an order: send `{\"job\": TEXT}`"),
        ("  \r\n", "the body is empty, and should be an order: send `{\"job\": TEXT}`"),
        (
            "name: sales\nsources: {}\n",
            "the body is not JSON: expected an object, found `n` at byte 0 of it; an order is \
             `{\"job\": TEXT}`",
        ),
        (
            "{\"job\": \"name: sales\nsources: {}\"}",
            "the body is not JSON: expected no control character in a string, found `\\n` at byte 20 \
             of it; an order is `{\"job\": TEXT}`",
        ),
        (
            "{\"job\": \"a\"",
            "the body is not JSON: expected `,` or `}`, but the body ends; an order is \
             `{\"job\": TEXT}`",
        ),
        (
            "{\"job\": \"a\"} x",
            "the body is not JSON: expected the end of the line, found `x` at byte 13 of it; an order \
             is `{\"job\": TEXT}`",
        ),
        (
            "[1]",
            "the body is not JSON: expected an object, found `[` at byte 0 of it; an order is \
             `{\"job\": TEXT}`",
        ),
        (
            "{\"job\": 1e999}",
            "the body is not JSON: number out of range at column 13; an order is `{\"job\": TEXT}`",
        ),
        ("{}", "the body is not an order: the field `job` is missing"),
        (
            "{\"jobb\": \"a\"}",
            "the body is not an order: `jobb`: unknown field `jobb`, expected one of `job`, `set`, \
             `resume`, did you mean `job`?",
        ),
        (
            "{\"j\u{43e}b\": \"a\"}",
            "the body is not an order: `j\u{43e}b`: unknown field `j\u{43e}b` (the name has U+043E \
             (Cyrillic letter) as character 2), expected one of `job`, `set`, `resume`, did you mean \
             `job`?",
        ),
        ("{\"job\": null}", "the body is not an order: `job`: found nothing, expected text"),
        ("{\"job\": {}}", "the body is not an order: `job`: found a table, expected text"),
        (
            "{\"job\": \"a\", \"set\": \"x=1\"}",
            "the body is not an order: `set`: found `x=1`, expected a list",
        ),
        (
            "{\"job\": \"a\", \"set\": [\"x=1\", []]}",
            "the body is not an order: `set.1`: found a list, expected text",
        ),
        (
            "{\"job\": \"a\", \"resume\": \"yes\"}",
            "the body is not an order: `resume`: found `yes`, expected `true` or `false`",
        ),
    ] {
        assert_eq!(refusal(body.as_bytes()), expected, "{body:?}");
    }
    let utf16: Vec<u8> = "{\"job\": \"a\"}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(refusal(&utf16).starts_with("the body is UTF-16 (little endian), and only UTF-8"));
    assert_eq!(
        refusal(b"{\"job\": \"caf\xe9\"}"),
        "the body is not JSON: not UTF-8 at byte 12 of it; an order is `{\"job\": TEXT}`"
    );
}

#[test]
fn good_bodies_are_read() {
    let body =
        "{\"job\": \"n\u{e4}me: \\ud83d\\ude00\\n\", \"set\": [\"a=1\", 1.50], \"resume\": true}";
    let order: Order = read_document(body.as_bytes(), &KIND).unwrap();
    assert_eq!(order.job, "n\u{e4}me: \u{1f600}\n");
    assert_eq!((order.set, order.resume), (vec!["a=1".to_owned(), "1.5".to_owned()], true));
}
