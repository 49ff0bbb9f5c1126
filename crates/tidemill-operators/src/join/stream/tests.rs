//! What a slice holds does not grow with the length of the streams.

use super::*;
use crate::join::join;
use arrow_array::{ArrayRef, Int64Array, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use std::sync::Mutex;
use tidemill_flow::{Partition, TIME_COLUMN, trial::Trial};
use tidemill_types::job::JoinSpec;

/// A join that notes how many rows, groups and times its slices hold after each cycle.
struct Watched(Arc<dyn OperatorFactory>, Arc<Mutex<Vec<usize>>>);

struct WatchedOperator(Box<dyn Operator>, Arc<Mutex<Vec<usize>>>);

impl OperatorFactory for Watched {
    fn outputs(&self) -> Vec<SchemaRef> {
        self.0.outputs()
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(WatchedOperator(self.0.operator(), Arc::clone(&self.1)))
    }

    fn state(&self, slice: SliceId) -> SliceState {
        self.0.state(slice)
    }

    fn wants_time(&self) -> bool {
        self.0.wants_time()
    }
}

impl Operator for WatchedOperator {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        self.0.cycle(context, input, output)?;
        let mut held = 0;
        for slice in context.slices.clone() {
            let rows: &mut SliceRows = context.state(SliceId(slice));
            let of_sides = rows.sides.iter().map(|side| side.held.len() + side.by_time.len());
            held += of_sides.sum::<usize>() + rows.groups.live();
            let kept = rows.groups.keys.len();
            assert!(kept <= group::KEYS_KEPT.max(rows.groups.live() * 2), "{kept} keys are kept");
        }
        self.1.lock().unwrap().push(held);
        Ok(())
    }
}

#[test]
fn rows_are_let_go_as_the_watermark_passes() {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new(TIME_COLUMN, utc, false),
    ]));
    let spec = JoinSpec {
        left: "l".to_owned(),
        right: Some("r".to_owned()),
        table: None,
        on: vec!["k".to_owned()],
        within: Some(Span(20)),
        kind: JoinKind::Left,
    };
    let made = join(&schema, &schema, &spec).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let parts = vec![Partition::Key(vec![0]), Partition::Key(vec![0])];
    let watched = Watched(made.factory, Arc::clone(&seen));
    let mut trial = Trial::new(Arc::new(watched), parts, 3, 1);
    let mut out = 0;
    for cycle in 0..500_i64 {
        let times = TimestampMicrosecondArray::from_iter_values(cycle * 10..cycle * 10 + 10);
        let keys = Int64Array::from_iter((0..10).map(|n| (n > 0).then_some(cycle * 10 + n)));
        let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(times.with_timezone("UTC"))];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let watermark = Micros(cycle * 10 + 9);
        let input = vec![vec![batch.clone()], vec![batch]];
        let written = trial.cycle(input, watermark, cycle == 499).unwrap();
        out += written.iter().map(|(_, batch)| batch.num_rows()).sum::<usize>();
    }
    assert_eq!(out, 5_000, "each left row comes out once, with its partner or alone");
    let seen = seen.lock().unwrap();
    // Three cycles of rows, each counted in its side, in the queue of its side and in its group.
    assert!(seen.iter().all(|held| *held <= 3 * 10 * 5), "{seen:?}");
    assert_eq!(seen.last(), Some(&0));
}
