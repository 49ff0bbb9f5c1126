//! Positions are told once, in order, and not before their cycle is committed.

use super::*;
use crate::source::{CommitFollower, Source, SourceError};
use arrow_schema::{Schema, SchemaRef};
use tidemill_types::SliceId;

#[derive(Default)]
struct Told {
    deaf: bool,
    told: Mutex<Vec<(u32, u64)>>,
}

impl SourceFactory for Told {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::empty())
    }

    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Err(SourceError::new("it is not opened"))
    }

    fn follower(&self) -> Option<&dyn CommitFollower> {
        (!self.deaf).then_some(self)
    }
}

impl CommitFollower for Told {
    fn committed(&self, slice: SliceId, position: Position) {
        self.told.lock().unwrap().push((slice.0, position.0));
    }
}

fn cut(source: u32, slice: u32, position: u64) -> Cut {
    Cut { source, slice, position, ended: false, idle: false }
}

#[test]
fn a_position_is_told_when_its_cycle_is_committed() {
    let (hears, deaf) =
        (Arc::new(Told::default()), Arc::new(Told { deaf: true, ..Told::default() }));
    let sources: [(StageIx, Arc<dyn SourceFactory>); 2] =
        [(StageIx(0), Arc::clone(&hears) as _), (StageIx(3), Arc::clone(&deaf) as _)];
    let followed = CommitFollowers::new(sources, Cycle(2));
    let told = || std::mem::take(&mut *hears.told.lock().unwrap());
    followed.cut(Cycle(1), &cut(0, 0, 5));
    followed.committed(Cycle(1));
    assert_eq!(told(), [], "it was told in an earlier life");
    for cycle in 2..6 {
        followed.cut(Cycle(cycle), &cut(0, 0, cycle * 10));
        followed.cut(Cycle(cycle), &cut(0, 1, 7));
        followed.cut(Cycle(cycle), &cut(3, 0, 9));
    }
    followed.committed(Cycle(1));
    assert_eq!(told(), []);
    followed.committed(Cycle(4));
    assert_eq!(told(), [(0, 40), (1, 7)], "several cycles at once");
    followed.committed(Cycle(4));
    followed.committed(Cycle(5));
    assert_eq!(told(), [(0, 50)], "a position that stands is not told again");
    assert!(deaf.told.lock().unwrap().is_empty());
}
