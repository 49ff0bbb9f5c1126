//! Addresses come back as they were written, with the brackets of IPv6.

use super::*;

#[test]
fn an_address_comes_back_as_it_was_written() {
    for (text, host, port) in [
        ("broker.example.org:9092", "broker.example.org", 9092),
        ("192.0.2.1:1", "192.0.2.1", 1),
        ("[::1]:9092", "::1", 9092),
        ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65_535),
    ] {
        assert_eq!(split(text), Some((host, port)), "{text}");
        assert_eq!(join(host, port), text);
    }
    assert_eq!(join("[::1]", 9092), "[::1]:9092");
}

#[test]
fn a_text_that_is_no_address_is_none() {
    for text in [
        "",
        "host",
        ":9092",
        "host:",
        "host:0",
        "host:70000",
        "host:+1",
        "::1:9092",
        "[::1]",
        "[::1:9092",
        "::1]:9092",
        "[]:1",
        "[host]:1",
    ] {
        assert_eq!(split(text), None, "{text}");
    }
}
