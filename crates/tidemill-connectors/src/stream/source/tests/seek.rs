//! A slice that is told where to go on reads what one that read all of its streamlet reads from there.

use super::transactions::{Played, acts, drain, live};
use super::*;
use crate::seek_contract::{check, gone_to, place, refused};
use proptest::prelude::*;

/// A stream of two streamlets whose records are good or not, in chunks that are compressed or not.
fn filled(log: &Log, format: Format) -> Arc<Stream> {
    let stream = log.create("s", StreamSpec { streamlets: 2, ..StreamSpec::default() }).unwrap();
    let value = |n: i64| match (format, n % 5) {
        (_, 3) => "-".to_owned(),
        (Format::Json, 1) => format!("{{\"n\":{n},\"l\":[\"x\"]}}"),
        (Format::Json, _) => format!("{{\"n\":{n},\"l\":[{n}]}}"),
        (Format::Influx, 1) => "m n=".to_owned(),
        (Format::Influx, _) => format!("m n={n}i"),
        (_, 1) => format!("{n},x,y"),
        _ => format!("{n},\"a, {n}\""),
    };
    for chunk in 0..6 {
        let values: Vec<String> = (chunk * 7..chunk * 7 + 1 + chunk).map(value).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let lz4 = Compression { codec: Codec::Lz4, level: None };
        let compression = if chunk % 2 == 0 { Compression::NONE } else { lz4 };
        put(&stream.streamlet((chunk % 2) as u32).unwrap(), compression, &values);
        put(&stream.streamlet(1).unwrap(), compression, &values);
    }
    stream
}

fn typed(format: Format) -> RecordSourceSpec {
    let types: &[(&str, &str)] = match format {
        Format::Json => &[("n", "bigint"), ("l", "bigint[]")],
        Format::Csv => &[("n", "bigint"), ("s", "text")],
        Format::Influx => &[("n", "bigint")],
        _ => &[],
    };
    let name = |it: &str| Some(it.to_owned());
    RecordSourceSpec {
        schema: types.iter().map(|(name, it)| ((*name).to_owned(), (*it).to_owned())).collect(),
        meta: MetaSpec { timestamp: name("at"), offset: name("offset"), ..MetaSpec::default() },
        time: Some(TimeSpec { field: "at".to_owned(), lateness: Span(1_500) }),
        ..spec(format)
    }
}

#[test]
fn a_stream_is_read_from_any_offset_on() {
    for format in [Format::Json, Format::Csv, Format::Text, Format::Influx] {
        let sim = World::simulated(1);
        let log = log(&sim);
        filled(&log, format);
        for until in [UntilSpec::Latest, UntilSpec::Never] {
            let spec = RecordSourceSpec { until, ..typed(format) };
            let source = RecordSource::of_stream(&sim.world, &log, None, "s", spec).unwrap();
            for (slice, count) in [(SliceId(0), 9), (SliceId(1), 33)] {
                for records in [1, 2, 5, 100] {
                    let steps = check(&*source, slice, &request(records, None));
                    let letters: usize = steps.iter().map(|it| it.letters.len()).sum();
                    let rows: usize = steps.iter().map(|it| it.batch.num_rows()).sum();
                    assert!(letters > 0 && rows > 0, "{format:?}");
                    assert_eq!(rows + letters, count, "{format:?}");
                }
                let bytes = ReadRequest { bytes: 20, ..request(100, None) };
                check(&*source, slice, &bytes);
            }
        }
    }
}

#[test]
fn an_offset_that_is_not_there_is_an_error() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let stream = filled(&log, Format::Text);
    let streamlet = stream.streamlet(1).unwrap();
    let end = streamlet.end_offset();
    let open = |until| {
        let spec = RecordSourceSpec { until, ..spec(Format::Text) };
        RecordSource::of_stream(&sim.world, &log, None, "s", spec).unwrap()
    };
    let (live, bounded) = (open(UntilSpec::Never), open(UntilSpec::Latest));
    let message = refused(&*live, SliceId(1), end.unsigned_abs() + 1);
    assert!(message.starts_with("stream s streamlet 1: "), "{message}");
    assert!(message.contains(&format!("ends at {end} now")), "{message}");

    stream.delete_records(&streamlet, 9).unwrap();
    let message = refused(&*live, SliceId(1), 8);
    assert!(message.contains("offset 8, which is no longer stored"), "{message}");
    assert!(message.contains("the first that is there is 9"), "{message}");
    let from_9 = gone_to(&*live, SliceId(1), (Position(9), Micros::MIN));
    assert_eq!(place(&*from_9), (Position(9), Micros::MIN));
    check_rest(from_9, (end - 9) as usize);

    stream.delete_records(&streamlet, end).unwrap();
    let at_end = gone_to(&*bounded, SliceId(1), (Position(end.unsigned_abs()), Micros::MIN));
    check_rest(at_end, 0);
    put(&streamlet, Compression::NONE, &["new"]);
    stream.delete_records(&streamlet, end + 1).unwrap();
    let at_end = gone_to(&*bounded, SliceId(1), (Position(end.unsigned_abs()), Micros::MIN));
    check_rest(at_end, 0);

    let latest = RecordSourceSpec { start: StartSpec::Latest, ..spec(Format::Text) };
    let latest = RecordSource::of_stream(&sim.world, &log, None, "s", latest).unwrap();
    assert!(refused(&*latest, SliceId(1), 3).contains("offset 3"));
}

/// What is left are so many records, good and bad.
fn check_rest(mut source: Box<dyn Source>, count: usize) {
    let steps = crate::seek_contract::rest(&mut *source, &request(100, None), true);
    let of = |it: &crate::seek_contract::Step| it.batch.num_rows() + it.letters.len();
    assert_eq!(steps.iter().map(of).sum::<usize>(), count);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn transactions_are_read_from_any_place_on(
        acts in acts(), bytes in 1usize..400, records in 1usize..9, pause in 1usize..6,
    ) {
        let sim = World::simulated(1);
        let log = log(&sim);
        let mut played = Played::new(&log);
        let node = played.node();
        let source = RecordSource::of_stream(&sim.world, &log, Some(&node), "s", live()).unwrap();
        let mut slice = source.open(SliceId(0)).unwrap();
        // Places where a slice stood while transactions were open that have ended since.
        let (mut rows, mut cuts) = (Vec::new(), vec![(0, 0)]);
        for (at, act) in acts.iter().enumerate() {
            played.act(act);
            if at % pause == 0 {
                let (more, ends) = drain(&mut *slice, bytes, records);
                cuts.extend(ends.iter().map(|(at, count)| (*at, rows.len() + count)));
                rows.extend(more);
            }
        }
        let (more, _) = drain(&mut *slice, bytes, records);
        rows.extend(more);
        for (offset, count) in cuts {
            let mut again = gone_to(&*source, SliceId(0), (Position(offset), Micros::MIN));
            let (after, _) = drain(&mut *again, bytes, records);
            prop_assert_eq!(&after, &rows[count..]);
            prop_assert_eq!(place(&*again), place(&*slice));
        }
        check(&*source, SliceId(0), &ReadRequest { bytes, ..request(records, None) });
    }
}
