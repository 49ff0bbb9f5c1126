//! The contract of seeking: from a place, a source reads the records that an undisturbed one reads there.

use arrow_array::RecordBatch;
use tidemill_flow::{DeadLetter, Payload, Position, Read, ReadRequest, Source, SourceFactory};
use tidemill_types::{Micros, SliceId};

/// A place of a source: where it stands, and its watermark there.
pub(crate) type Place = (Position, Micros);

/// The result of a read.
#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) batch: RecordBatch,
    pub(crate) letters: Vec<DeadLetter>,
    pub(crate) bytes: usize,
    /// Where the source stands then.
    pub(crate) place: Place,
}

/// Where a source stands.
pub(crate) fn place(source: &dyn Source) -> Place {
    (source.position(), source.watermark())
}

/// Reads on to the end; of a live source, until there is nothing now.
pub(crate) fn rest(source: &mut dyn Source, request: &ReadRequest, live: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    loop {
        let mut letters = Vec::new();
        match source.read(request, &mut letters).unwrap() {
            Read::Rows { payload: Payload::Arrow(batch), bytes } => {
                steps.push(Step { batch, letters, bytes, place: place(source) });
            }
            Read::End => return steps,
            Read::Idle { .. } if live => return steps,
            // A cluster answers in its own time.
            Read::Idle { .. } => std::thread::yield_now(),
            other @ Read::Rows { .. } => panic!("{other:?}"),
        }
    }
}

/// A new slice that was told to go to a place.
pub(crate) fn gone_to(factory: &dyn SourceFactory, slice: SliceId, to: Place) -> Box<dyn Source> {
    let mut source = factory.open(slice).unwrap();
    source.seek(to.0, to.1).unwrap();
    assert_eq!(place(&*source), to);
    source
}

/// Goes to each place at which an undisturbed slice stands, and compares the rest. Returns the
/// records that slice read.
pub(crate) fn check(
    factory: &dyn SourceFactory,
    slice: SliceId,
    request: &ReadRequest,
) -> Vec<Step> {
    let mut undisturbed = factory.open(slice).unwrap();
    let start = place(&*undisturbed);
    let steps = rest(&mut *undisturbed, request, factory.live());
    for (index, to) in std::iter::once(start).chain(steps.iter().map(|it| it.place)).enumerate() {
        let mut source = gone_to(factory, slice, to);
        let after = rest(&mut *source, request, factory.live());
        assert_eq!(after, steps[index..], "from {to:?}");
    }
    steps
}

/// Why a slice does not go to a place.
pub(crate) fn refused(factory: &dyn SourceFactory, slice: SliceId, to: u64) -> String {
    let mut source = factory.open(slice).unwrap();
    source.seek(Position(to), Micros::MIN).expect_err("it is no place of this source").message
}
