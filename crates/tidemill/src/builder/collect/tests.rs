//! What of a sink in memory shows, and when.

use super::*;
use arrow_array::{ArrayRef, Int64Array};

fn block(rows: i64) -> Arc<Block> {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).expect("a column");
    Arc::new(Block::whole(Payload::Arrow(batch), SliceId(0)))
}

#[test]
fn rows_of_a_later_cycle_wait_for_their_own_commit() {
    let (mut sink, rows) = collected();
    let mut seen = Vec::new();
    sink.write(Cycle(1), &[block(1), block(2)]).expect("room");
    sink.write(Cycle(2), &[block(4)]).expect("room");
    sink.write(Cycle(4), &[block(8)]).expect("room");
    for cycle in 1..5 {
        sink.commit(Cycle(cycle)).expect("room");
        seen.push(rows.rows());
    }
    assert_eq!(seen, [3, 7, 7, 15]);
}
