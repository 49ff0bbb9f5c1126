//! Streamlets that are added to a stream are read, from their first record on.

use super::*;
use crate::stream::note::Notes;

fn added(log: &Log, streamlets: u32) {
    let spec = log.get("s").unwrap().spec();
    log.alter("s", StreamSpec { streamlets, ..spec }).unwrap();
}

fn value(log: &Log, index: u32, number: i64) {
    let streamlet = log.get("s").unwrap().streamlet(index).unwrap();
    put(&streamlet, Compression::NONE, &[&format!("{{\"n\":{number}}}")]);
}

fn latest() -> StreamSourceSpec {
    StreamSourceSpec {
        start: StartSpec::Latest,
        until: UntilSpec::Never,
        note: Some("/job/source-s.json".into()),
        ..spec(Format::Json)
    }
}

fn source(sim: &SimWorld, log: &Log, spec: StreamSourceSpec) -> Arc<dyn SourceFactory> {
    StreamSource::new(&sim.world, log, None, "s", spec).unwrap()
}

fn starts(source: &dyn SourceFactory) -> Vec<u64> {
    (0..source.slices()).map(|slice| source.begins_at(slice).0).collect()
}

fn noted(sim: &SimWorld) -> Began {
    let path = latest().note.unwrap();
    Notes::new(&sim.world, &path).read().unwrap().unwrap()
}

/// A stream with one record in its first streamlet, of a job that has begun, and then got another.
fn begun(sim: &SimWorld) -> (Log, Arc<dyn SourceFactory>) {
    let log = log(sim);
    log.create("s", StreamSpec::default()).unwrap();
    value(&log, 0, 1);
    let source = source(sim, &log, latest());
    source.begin().unwrap();
    assert_eq!((source.began_with(), source.grow().unwrap()), (1, 1));
    added(&log, 2);
    value(&log, 1, 2);
    (log, source)
}

#[test]
fn what_is_added_is_read_from_its_first_record_and_noted() {
    let sim = World::simulated(1);
    let (log, source) = begun(&sim);
    assert!(source.grows());
    assert_eq!(source.slices(), 1, "nobody has asked");
    assert_eq!((source.grow().unwrap(), source.slices(), source.began_with()), (2, 2, 1));
    assert_eq!(starts(&*source), [1, 0], "the job begins at the latest record");
    let began = noted(&sim);
    assert_eq!((began.first, began.bounds), (Some(1), vec![(1, None), (0, None)]));

    let mut slice = source.open(SliceId(1)).unwrap();
    let woken = wakes(&mut *slice);
    let Read::Rows { payload: Payload::Arrow(batch), .. } =
        slice.read(&request(10, None), &mut Vec::new()).unwrap()
    else {
        panic!("there is a record");
    };
    assert_eq!(numbers(&[batch]), [2]);
    assert!(matches!(slice.read(&request(10, None), &mut Vec::new()), Ok(Read::Idle { .. })));
    value(&log, 1, 3);
    assert_eq!(woken.load(Ordering::SeqCst), 1);
}

#[test]
fn a_job_that_goes_on_reads_what_was_added_meanwhile() {
    let sim = World::simulated(1);
    let (log, _) = begun(&sim);
    let resumed = source(&sim, &log, StreamSourceSpec { resume: true, ..latest() });
    assert_eq!((resumed.slices(), resumed.began_with(), starts(&*resumed)), (2, 1, vec![1, 0]));
    resumed.begin().unwrap();
    assert_eq!(noted(&sim).first, Some(1));
    // One that ends where the stream ended reads what it had then.
    let until = UntilSpec::Latest;
    let resumed = source(&sim, &log, StreamSourceSpec { resume: true, until, ..latest() });
    assert_eq!((resumed.slices(), resumed.grows()), (2, false));
    added(&log, 3);
    let resumed = source(&sim, &log, StreamSourceSpec { resume: true, until, ..latest() });
    assert_eq!(resumed.slices(), 2);
}

/// Of what was added to the job of a checkpoint, the checkpoint may have no place.
#[test]
fn a_job_that_begins_with_a_checkpoint_leaves_nothing_out() {
    let sim = World::simulated(1);
    let (log, first) = begun(&sim);
    first.grow().unwrap();
    added(&log, 3);
    value(&log, 2, 3);
    let anew = source(&sim, &log, StreamSourceSpec { from_checkpoint: true, ..latest() });
    assert_eq!((anew.slices(), anew.began_with(), starts(&*anew)), (3, 1, vec![1, 0, 0]));
    // Without one it begins as it says.
    let anew = source(&sim, &log, latest());
    assert_eq!((anew.slices(), anew.began_with(), starts(&*anew)), (3, 3, vec![1, 1, 1]));
}

#[test]
fn what_cannot_be_noted_is_not_read_yet() {
    let sim = World::simulated(1);
    let (_, source) = begun(&sim);
    sim.disk.set_capacity(sim.disk.used());
    let error = source.grow().unwrap_err();
    assert!(error.message.starts_with("stream `s`: "), "{error}");
    assert_eq!((source.slices(), noted(&sim).bounds.len()), (1, 1));
    sim.disk.set_capacity(u64::MAX);
    assert_eq!(source.grow().unwrap(), 2);
}

/// A note of a program that did not know that streamlets are added.
#[test]
fn a_note_without_a_first_number_is_one_of_all() {
    let began: Began = serde_json::from_str(r#"{"stream":"x","bounds":[[0,null],[7,9]]}"#).unwrap();
    assert_eq!(began.reach().first(), 2);
}
