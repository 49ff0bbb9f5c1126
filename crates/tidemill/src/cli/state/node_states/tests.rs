//! Answers of nodes, and of what is none.

use super::*;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;
use std::sync::Arc;

fn batch(count: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
    let texts = (0..count).map(|it| format!("text {it}"));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap()
}

fn file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batch(0).schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

#[test]
fn a_file_is_read_whole() {
    for batches in [vec![], vec![batch(0)], vec![batch(3)], vec![batch(3), batch(0), batch(5)]] {
        let answer = rows(&file(&batches), 8).unwrap();
        assert_eq!(answer.schema, batch(0).schema());
        let found = single_rows(&answer.batches);
        assert_eq!(found, single_rows(&batches));
    }
    assert!(rows(&file(&[batch(3), batch(6)]), 8).unwrap_err().contains("more than 8 rows"));
}

/// The rows of batches, whichever batch they are in.
fn single_rows(batches: &[RecordBatch]) -> Vec<RecordBatch> {
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|it| batch.slice(it, 1))).collect()
}

#[test]
fn a_compressed_answer_is_refused() {
    let stream = include_bytes!("../../../../../tidemill-wire/src/arrow/compressed-zstd.arrows");
    let footer = 0_u32.to_le_bytes();
    let file = [&b"ARROW1\0\0"[..], stream, &footer, b"ARROW1"].concat();
    assert_eq!(rows(&file, 1_000).map(|_| ()), Err("it is compressed by ZSTD".to_owned()));
}

#[test]
fn an_answer_that_was_changed_anywhere_is_rows_or_an_error() {
    let good = file(&[batch(40)]);
    for at in 0..good.len() {
        for value in [0, 0x40, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            let _rows_or_not = rows(&bad, 1_000);
        }
    }
}
