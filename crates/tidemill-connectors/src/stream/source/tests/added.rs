//! Streamlets that are added to a stream are read, from their first record on.

use super::*;
use crate::notes::Notes;
use crate::record_source::Began;

fn added(log: &Log, streamlets: u32) {
    let spec = log.get("s").unwrap().spec();
    log.alter("s", StreamSpec { streamlets, ..spec }).unwrap();
}

fn value(log: &Log, index: u32, number: i64) {
    let streamlet = log.get("s").unwrap().streamlet(index).unwrap();
    put(&streamlet, Compression::NONE, &[&format!("{{\"n\":{number}}}")]);
}

fn latest() -> RecordSourceSpec {
    RecordSourceSpec {
        start: StartSpec::Latest,
        until: UntilSpec::Never,
        note: Some("/job/source-s.json".into()),
        ..spec(Format::Json)
    }
}

fn source(sim: &SimWorld, log: &Log, spec: RecordSourceSpec) -> Arc<dyn SourceFactory> {
    RecordSource::of_stream(&sim.world, log, None, "s", spec).unwrap()
}

/// Asks for added streamlets.
fn grow(source: &dyn SourceFactory) -> Result<u32, SourceError> {
    source.growth().expect("it may get streamlets").grow()
}

fn began_with(source: &dyn SourceFactory) -> u32 {
    source.growth().expect("it may get streamlets").began_with()
}

fn starts(source: &dyn SourceFactory) -> Vec<u64> {
    (0..source.slices()).map(SliceId).map(|slice| source.begins_at(slice).0).collect()
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
    assert_eq!((began_with(&*source), grow(&*source).unwrap()), (1, 1));
    added(&log, 2);
    value(&log, 1, 2);
    (log, source)
}

#[test]
fn what_is_added_is_read_from_its_first_record_and_noted() {
    let sim = World::simulated(1);
    let (log, source) = begun(&sim);
    assert!(source.growth().is_some());
    assert_eq!(source.slices(), 1, "nobody has asked");
    assert_eq!((grow(&*source).unwrap(), source.slices(), began_with(&*source)), (2, 2, 1));
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
    let resumed = source(&sim, &log, RecordSourceSpec { resume: true, ..latest() });
    assert_eq!((resumed.slices(), began_with(&*resumed), starts(&*resumed)), (2, 1, vec![1, 0]));
    resumed.begin().unwrap();
    assert_eq!(noted(&sim).first, Some(1));
    // One that ends where the stream ended reads what it had then.
    let until = UntilSpec::Latest;
    let resumed = source(&sim, &log, RecordSourceSpec { resume: true, until, ..latest() });
    assert_eq!(resumed.slices(), 2);
    assert!(resumed.growth().is_none());
    added(&log, 3);
    let resumed = source(&sim, &log, RecordSourceSpec { resume: true, until, ..latest() });
    assert_eq!(resumed.slices(), 2);
}

/// Of what was added to the job of a checkpoint, the checkpoint may have no place.
#[test]
fn a_job_that_begins_with_a_checkpoint_leaves_nothing_out() {
    let sim = World::simulated(1);
    let (log, first) = begun(&sim);
    grow(&*first).unwrap();
    added(&log, 3);
    value(&log, 2, 3);
    let anew = source(&sim, &log, RecordSourceSpec { from_checkpoint: true, ..latest() });
    assert_eq!((anew.slices(), began_with(&*anew), starts(&*anew)), (3, 1, vec![1, 0, 0]));
    // Without one it begins as it says.
    let anew = source(&sim, &log, latest());
    assert_eq!((anew.slices(), began_with(&*anew), starts(&*anew)), (3, 3, vec![1, 1, 1]));
}

#[test]
fn what_cannot_be_noted_is_not_read_yet() {
    let sim = World::simulated(1);
    let (_, source) = begun(&sim);
    sim.disk.set_capacity(sim.disk.used());
    let error = grow(&*source).unwrap_err();
    assert!(error.message.starts_with("stream `s`: "), "{error}");
    assert_eq!((source.slices(), noted(&sim).bounds.len()), (1, 1));
    sim.disk.set_capacity(u64::MAX);
    assert_eq!(grow(&*source).unwrap(), 2);
}
