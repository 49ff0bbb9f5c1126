//! Byte soup: whatever stands in a file, good records survive it and only bad ones are set aside.

use super::*;
use proptest::prelude::*;

/// A line of a file: `Ok` is a good record with this number, `Err` is soup.
type Line = Result<i64, Vec<u8>>;

fn lines_of(soup: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<Line>> {
    let line = prop_oneof![any::<i64>().prop_map(Ok), soup.prop_map(Err)];
    prop::collection::vec(line, 0..40)
}

/// Bytes without a line break and without `never`, often close to something good.
fn soup(near: &'static str, never: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let near = near.prop_map(String::into_bytes);
    prop_oneof![near, prop::collection::vec(any::<u8>(), 0..60)].prop_map(|mut bytes| {
        bytes.retain(|byte| !b"\r\n".contains(byte) && !never.contains(byte));
        bytes
    })
}

fn file(head: &str, lines: &[Line], good: impl Fn(i64) -> String) -> Vec<u8> {
    let mut text = head.as_bytes().to_vec();
    for line in lines {
        match line {
            Ok(number) => text.extend_from_slice(good(*number).as_bytes()),
            Err(soup) => text.extend_from_slice(soup),
        }
        text.push(b'\n');
    }
    text
}

/// Reads the file in small pieces and checks that good records, those with an `s`, come out in
/// order, and that soup for which `bad` is true comes out as dead letters with its line.
fn check(spec: &FileSourceSpec, text: &[u8], lines: &[Line], head: u64, bad: fn(&[u8]) -> bool) {
    let factory = source(text, spec, None).unwrap();
    let (steps, letters) = drain(&*factory, &request(64, 7));
    let found = steps.iter().flat_map(|step| {
        let marked = texts(&step.0, "s").into_iter().map(|s| s.as_deref() == Some("good"));
        let numbers = ints(&step.0, "n").into_iter().zip(marked.collect::<Vec<_>>());
        numbers.filter(|(_, marked)| *marked).map(|(number, _)| number.unwrap()).collect::<Vec<_>>()
    });
    let good: Vec<i64> = lines.iter().filter_map(|line| line.as_ref().ok().copied()).collect();
    assert_eq!(found.collect::<Vec<_>>(), good);
    let numbered = lines.iter().zip(head + 1..);
    let refused = numbered.filter(|(line, _)| line.as_ref().is_err_and(|soup| bad(soup)));
    let refused: Vec<u64> = refused.map(|(_, number)| number).collect();
    assert_eq!(super::lines(&letters), refused, "{letters:?}");
    assert_eq!(steps.last().map_or(text.len() as u64, |step| step.2.0), text.len() as u64);
}

fn bad_json(soup: &[u8]) -> bool {
    !soup.iter().all(u8::is_ascii_whitespace)
        && serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(soup).is_err()
}

fn bad_csv(soup: &[u8]) -> bool {
    let fields: Vec<&[u8]> = soup.split(|byte| *byte == b',').collect();
    let null = |it: &[u8]| matches!(it, b"" | b"NA" | b"null" | b"NULL");
    let number = |it: &[u8]| {
        let int = crate::number::parse_int_or_whole(it.trim_ascii());
        int.is_some_and(|it| i64::try_from(it).is_ok())
    };
    !soup.is_empty()
        && (std::str::from_utf8(soup).is_err()
            || fields.len() != 2
            || !(null(fields[0]) || number(fields[0])))
}

/// Without `=` nothing is a point.
fn bad_influx(soup: &[u8]) -> bool {
    let text = soup.trim_ascii_start();
    !text.is_empty() && text[0] != b'#'
}

proptest! {
    #[test]
    fn json(lines in lines_of(soup("[{}\\[\\]\":,a-c0-9.eE\\\\ +-]{0,30}", b""))) {
        let typed = typed(Format::Json, &[("n", "bigint"), ("s", "text")]);
        let text = file("", &lines, |n| format!("{{\"n\":{n},\"s\":\"good\"}}"));
        check(&typed, &text, &lines, 0, bad_json);
    }

    // Quotes may join soup with what follows it; they have a test of their own.
    #[test]
    fn csv(lines in lines_of(soup("[a-c0-9,. -]{0,20}", b"\""))) {
        let typed = typed(Format::Csv, &[("n", "bigint"), ("s", "text")]);
        let text = file("n,s\n", &lines, |n| format!("{n},good"));
        check(&typed, &text, &lines, 1, bad_csv);
    }

    #[test]
    fn csv_with_quotes_accounts_for_every_line(text in "[ab\",\n\r]{0,200}") {
        let whole = format!("n,s\n{text}\n");
        let factory = source(whole.as_bytes(), &spec(Format::Csv), None).unwrap();
        let (all, letters) = drain(&*factory, &request(1 << 20, 1 << 20));
        let (pieces, again) = drain(&*factory, &request(1, 1));
        prop_assert_eq!(&letters, &again);
        let rows = |steps: &[Step]| steps.iter().map(|step| step.0.num_rows()).sum::<usize>();
        prop_assert_eq!(rows(&all), rows(&pieces));
        let places: std::collections::BTreeSet<&str> =
            letters.iter().map(|it| it.position.as_str()).collect();
        prop_assert_eq!(places.len(), letters.len(), "a line is given up once");
    }

    #[test]
    fn influx(lines in lines_of(soup("[a-c0-9, \\\\\"it]{0,20}", b"="))) {
        let typed = typed(Format::Influx, &[("n", "bigint"), ("s", "text")]);
        let text = file("", &lines, |n| format!("m,t=a n={n}i,s=\"good\" 5"));
        check(&typed, &text, &lines, 0, bad_influx);
    }

    #[test]
    fn nothing_panics(bytes: Vec<u8>, sample in 1_usize..4) {
        let formats = [Format::Json, Format::Csv, Format::Text, Format::Influx];
        let bare = FileSourceSpec { header: Some(false), delimiter: Some(';'), ..spec(Format::Csv) };
        for spec in formats.into_iter().map(spec).chain([bare]) {
            let spec = FileSourceSpec { sample: Some(sample), ..spec };
            if let Ok(factory) = source(&bytes, &spec, None) {
                let (steps, letters) = drain(&*factory, &request(16, 2));
                let rows: usize = steps.iter().map(|step| step.0.num_rows()).sum();
                let breaks = bytes.iter().filter(|byte| **byte == b'\n').count();
                prop_assert!(rows + letters.len() <= breaks + 1);
            }
        }
    }
}
