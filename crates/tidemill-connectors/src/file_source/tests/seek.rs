//! A source that is told where to go on reads what one that read all of the file reads from there.

use super::*;
use crate::fuzzing::{arrow_file, arrow_stream, parquet};
use crate::seek_contract::{check, gone_to, refused, rest};
use parquet::basic::Compression;
use proptest::prelude::*;

/// Files of lines: head, and what stands in each line.
fn line_files() -> Vec<(Format, String)> {
    let mut json = String::new();
    let mut csv = "\u{feff}t,n,s\r\n".to_owned();
    let (mut text, mut influx) = ("\u{feff}".to_owned(), String::new());
    for n in 0..60_i64 {
        let t = (n * 7919) % 100_000;
        match n % 7 {
            3 => {
                json.push_str("\n{\"t\":\n");
                csv.push_str(&format!("{t},x,s\n\n{t}\n"));
                influx.push_str("# nothing\n\nm v=\n");
            }
            5 => {
                json.push_str(&format!("{{\"n\":{n},\"s\":\"no time\"}}\r\n"));
                csv.push_str(&format!("{t},{n},\"two\nlines, \"\"{n}\"\"\n\"\r\n"));
                influx.push_str("m v=1i,s=\"no time\"\n");
            }
            6 => csv.push_str(&format!("{t},{n},\"a stray quote\n")),
            _ => {
                json.push_str(&format!("{{\"t\":{t},\"n\":{n},\"s\":\"ä{n}\"}}\n"));
                csv.push_str(&format!("{t},{n},ä{n}\n"));
                influx.push_str(&format!("m,tag=a v={n}i,s=\"ä\" {t}000000\n"));
            }
        }
        text.push_str(&format!("line {n}\r\n"));
    }
    vec![(Format::Json, json), (Format::Csv, csv), (Format::Text, text), (Format::Influx, influx)]
}

fn timed(format: Format) -> (FileSourceSpec, Option<TimeSpec>) {
    match format {
        Format::Text => (spec(format), None),
        Format::Influx => (typed(format, &[("v", "bigint")]), Some(time("time", 5_000))),
        _ => (typed(format, &[("n", "bigint")]), Some(time("t", 5_000))),
    }
}

#[test]
fn lines_are_read_from_any_place_on() {
    for (format, text) in line_files() {
        for ending in ["", "\n", "{\"t\":1,", "no line end"] {
            let text = format!("{text}{ending}");
            let (spec, time) = timed(format);
            let factory = source(text.as_bytes(), &spec, time.as_ref()).unwrap();
            for (bytes, records) in [(1, 1), (64, 1_000), (1 << 20, 3), (1 << 20, 1 << 20)] {
                check(&*factory, SliceId(0), &request(bytes, records));
            }
        }
    }
}

#[test]
fn lines_before_the_place_are_counted() {
    let bad_at_the_end = format!("{}bad\n", "{\"a\":1}\n".repeat(300_000));
    let sim = world_with(bad_at_the_end.as_bytes());
    let factory = FileSource::new(&sim.world, "f", &spec(Format::Json), None).unwrap();
    let size = bad_at_the_end.len() as u64;
    let place = (Position(size - 12), Micros::MIN);
    let steps = rest(&mut *gone_to(&*factory, SliceId(0), place), &request(100, 100), false);
    let letters = &steps[0].letters;
    assert_eq!(lines(letters), [300_001]);
    let end = size - 4;
    assert_eq!(letters[0].position, format!("f:byte {end}, line 300001"));
}

#[test]
fn a_line_that_is_too_long_can_be_before_the_place_or_behind_it() {
    let mut text = b"a\n".to_vec();
    text.resize(text.len() + (17 << 20), b'x');
    text.extend_from_slice(b"\nb\n\xff\n");
    let factory = source(&text, &spec(Format::Text), None).unwrap();
    check(&*factory, SliceId(0), &request(1 << 20, 1));
}

#[test]
fn a_file_of_lines_that_is_not_the_one_it_was_is_an_error() {
    let factory = source(b"a,b\n1,2\n3,4\n", &spec(Format::Csv), None).unwrap();
    let message = refused(&*factory, SliceId(0), 13);
    assert!(message.starts_with("`f`: the file has changed"), "{message}");
    assert!(message.contains("12 bytes") && message.contains("byte 13"), "{message}");
    for inside in [0, 3, 5, 7, 11] {
        let message = refused(&*factory, SliceId(0), inside);
        assert!(message.contains(&format!("byte {inside}, where no record ends")), "{message}");
    }

    let sim = world_with(b"aa\nbb\ncc\n");
    let factory = FileSource::new(&sim.world, "f", &spec(Format::Text), None).unwrap();
    sim.disk.put("f", b"aa\n");
    assert!(refused(&*factory, SliceId(0), 9).contains("shorter"));
}

fn columnar_source(format: Format, bytes: &[u8]) -> Arc<dyn SourceFactory> {
    source(bytes, &spec(format), Some(&time("t", 5_000))).unwrap()
}

#[test]
fn batches_are_read_from_any_record_on() {
    let some = [40, 0, 1, 33, 60];
    for (format, bytes) in [
        (Format::Arrow, arrow_file(&some)),
        (Format::Arrow, arrow_stream(&some)),
        (Format::Parquet, parquet(&some, Compression::UNCOMPRESSED)),
    ] {
        let factory = columnar_source(format, &bytes);
        for (bytes, records) in [(1, 1), (700, 1_000), (1 << 20, 7), (1 << 20, 1 << 20)] {
            check(&*factory, SliceId(0), &request(bytes, records));
        }
        let message = refused(&*factory, SliceId(0), 135);
        assert!(message.starts_with("`f`: the file has changed"), "{message}");
        assert!(message.contains("134 records") && message.contains("record 135"), "{message}");
    }
}

#[test]
fn a_row_group_of_many_batches_is_cut_as_from_its_start() {
    let factory =
        columnar_source(Format::Parquet, &parquet(&[20_000, 9_000], Compression::UNCOMPRESSED));
    check(&*factory, SliceId(0), &request(1 << 20, 3_000));
    check(&*factory, SliceId(0), &request(150_000, 1 << 20));
}

#[test]
fn batches_before_the_place_are_not_looked_at() {
    let some = [40, 50, 60];
    let whole = arrow_stream(&some);
    let parts: Vec<usize> = (1..=3).map(|count| arrow_stream(&some[..count]).len() - 8).collect();
    let mut damaged = whole.clone();
    // The end of the first batch's body: text, which would be refused.
    damaged[parts[0] - 600..parts[0] - 300].fill(0xff);
    assert_ne!(damaged, whole);
    let from_95 = |factory: &dyn SourceFactory| {
        rest(
            &mut *gone_to(factory, SliceId(0), (Position(95), Micros(1))),
            &request(1 << 20, 9),
            false,
        )
    };
    let expected = from_95(&*columnar_source(Format::Arrow, &whole));
    let found = from_95(&*columnar_source(Format::Arrow, &damaged));
    assert_eq!(found, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_stands_in_lines(
        text in "[ab\",\n\r#{}:1= ]{0,120}", bytes in 1_usize..40, records in 1_usize..6,
    ) {
        for format in [Format::Json, Format::Csv, Format::Text, Format::Influx] {
            let head = if format == Format::Csv { "a,b\n" } else { "" };
            let factory = source(format!("{head}{text}").as_bytes(), &spec(format), None).unwrap();
            check(&*factory, SliceId(0), &request(bytes, records));
        }
    }

    #[test]
    fn whatever_batches_there_are(
        lengths in prop::collection::vec(0_usize..30, 1..6),
        bytes in 1_usize..4_000,
        records in 1_usize..40,
    ) {
        for (format, file) in [
            (Format::Arrow, arrow_file(&lengths)),
            (Format::Arrow, arrow_stream(&lengths)),
            (Format::Parquet, parquet(&lengths, Compression::UNCOMPRESSED)),
        ] {
            check(&*columnar_source(format, &file), SliceId(0), &request(bytes, records));
        }
    }
}
