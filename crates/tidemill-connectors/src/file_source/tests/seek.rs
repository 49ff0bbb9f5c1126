//! A source that is told where to go on reads what one that read all of the file reads from there.

use super::*;
use crate::seeking::{check, gone_to, refused, rest};
use arrow_array::{
    ArrayRef, DictionaryArray, Int64Array, StringArray, StringViewArray, TimestampMicrosecondArray,
    types::Int32Type,
};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
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
                check(&*factory, 0, &request(bytes, records));
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
    let steps = rest(&mut *gone_to(&*factory, 0, place), &request(100, 100), false);
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
    check(&*factory, 0, &request(1 << 20, 1));
}

#[test]
fn a_file_of_lines_that_is_not_the_one_it_was_is_an_error() {
    let factory = source(b"a,b\n1,2\n3,4\n", &spec(Format::Csv), None).unwrap();
    let message = refused(&*factory, 0, 13);
    assert!(message.starts_with("`f`: the file has changed"), "{message}");
    assert!(message.contains("12 bytes") && message.contains("byte 13"), "{message}");
    for inside in [0, 3, 5, 7, 11] {
        let message = refused(&*factory, 0, inside);
        assert!(message.contains(&format!("byte {inside}, where no record ends")), "{message}");
    }

    let sim = world_with(b"aa\nbb\ncc\n");
    let factory = FileSource::new(&sim.world, "f", &spec(Format::Text), None).unwrap();
    sim.disk.put("f", b"aa\n");
    assert!(refused(&*factory, 0, 9).contains("shorter"));
}

/// Words by number; `turn` is which of them is the first in the dictionary.
fn words(numbers: std::ops::Range<i64>, turn: usize) -> DictionaryArray<Int32Type> {
    let mut words = ["one", "two", "three"];
    words.rotate_left(turn);
    let keys = numbers.map(|it| (it % 3) as i32);
    DictionaryArray::new(keys.collect(), Arc::new(StringArray::from_iter_values(words)))
}

/// Batches with a time that is missing here and there, with text in the ways that Arrow has it. The
/// dictionaries are all the same, or not.
fn batches(lengths: &[usize], same: bool) -> Vec<RecordBatch> {
    let mut from = 0_i64;
    let batch = |length: &usize| {
        let range = from..from + *length as i64;
        from = range.end;
        let turn = if same { 0 } else { range.end as usize % 3 };
        let times = range.clone().map(|it| (it % 11 != 4).then_some((it * 7919) % 100_000));
        let texts = || range.clone().map(|it| format!("{it} {}", "x".repeat((it % 40) as usize)));
        let lists = arrow_array::ListArray::from_iter_primitive::<Int64Type, _, _>(
            range.clone().map(|it| Some((0..it % 4).map(Some).collect::<Vec<_>>())),
        );
        RecordBatch::try_from_iter_with_nullable([
            ("n", Arc::new(Int64Array::from_iter_values(range.clone())) as ArrayRef, true),
            ("t", Arc::new(times.collect::<TimestampMicrosecondArray>()), true),
            ("s", Arc::new(StringArray::from_iter_values(texts())), true),
            ("v", Arc::new(StringViewArray::from_iter_values(texts())), true),
            ("d", Arc::new(words(range.clone(), turn)), true),
            ("l", Arc::new(lists), true),
        ])
        .unwrap()
    };
    lengths.iter().map(batch).collect()
}

fn arrow_file(lengths: &[usize]) -> Vec<u8> {
    let batches = batches(lengths, true);
    let schema = batches[0].schema();
    let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &schema).unwrap();
    batches.iter().for_each(|batch| file.write(batch).unwrap());
    file.into_inner().unwrap()
}

fn arrow_stream(lengths: &[usize]) -> Vec<u8> {
    let batches = batches(lengths, false);
    let schema = batches[0].schema();
    let mut file = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &schema).unwrap();
    batches.iter().for_each(|batch| file.write(batch).unwrap());
    file.into_inner().unwrap()
}

/// A row group a batch, of small pages.
fn parquet(lengths: &[usize]) -> Vec<u8> {
    let batches = batches(lengths, false);
    let properties = WriterProperties::builder()
        .set_data_page_row_count_limit(700)
        .set_write_batch_size(100)
        .build();
    let schema = batches[0].schema();
    let mut file = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
    for batch in &batches {
        file.write(batch).unwrap();
        file.flush().unwrap();
    }
    file.into_inner().unwrap()
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
        (Format::Parquet, parquet(&some)),
    ] {
        let factory = columnar_source(format, &bytes);
        for (bytes, records) in [(1, 1), (700, 1_000), (1 << 20, 7), (1 << 20, 1 << 20)] {
            check(&*factory, 0, &request(bytes, records));
        }
        let message = refused(&*factory, 0, 135);
        assert!(message.starts_with("`f`: the file has changed"), "{message}");
        assert!(message.contains("134 records") && message.contains("record 135"), "{message}");
    }
}

#[test]
fn a_row_group_of_many_batches_is_cut_as_from_its_start() {
    let factory = columnar_source(Format::Parquet, &parquet(&[20_000, 9_000]));
    check(&*factory, 0, &request(1 << 20, 3_000));
    check(&*factory, 0, &request(150_000, 1 << 20));
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
        rest(&mut *gone_to(factory, 0, (Position(95), Micros(1))), &request(1 << 20, 9), false)
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
            check(&*factory, 0, &request(bytes, records));
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
            (Format::Parquet, parquet(&lengths)),
        ] {
            check(&*columnar_source(format, &file), 0, &request(bytes, records));
        }
    }
}
