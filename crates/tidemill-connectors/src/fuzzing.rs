//! Files of all formats to begin with, for tests and for the fuzz targets that read files.

use crate::rows_as;
use arrow_array::{
    ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, StringViewArray,
    TimestampMicrosecondArray,
    types::{Int32Type, Int64Type},
};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use std::sync::Arc;
use tidemill_types::job::Format;

#[cfg(test)]
mod tests;

/// Writes to memory cannot fail.
const WRITTEN: &str = "columns of one length, to memory";

/// Good files of a format, each of another kind, and all of them small.
#[must_use]
pub fn seeds(format: Format) -> Vec<Vec<u8>> {
    let some = [5, 0, 1, 9];
    let lines = |text: &str| vec![text.as_bytes().to_vec()];
    match format {
        Format::Arrow => vec![arrow_file(&some), arrow_stream(&some)],
        Format::Parquet => {
            let zstd = Compression::ZSTD(ZstdLevel::default());
            let ways = [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd];
            ways.map(|way| parquet(&some, way)).into()
        }
        Format::Json | Format::Csv => {
            // CSV has no lists.
            let flat = |it: &RecordBatch| it.project(&[0, 1, 2]).expect(WRITTEN);
            let batches: Vec<RecordBatch> = batches(&some, true).iter().map(flat).collect();
            vec![rows_as(format, &batches[0].schema(), &batches).expect(WRITTEN)]
        }
        Format::Influx => lines(
            "weather,place=a\\ b t=1.5,n=3i,u=4u,ok=true,s=\"x \\\" y\" 1465839830100400200\n# a comment\n\nweather t=-1e9\n",
        ),
        Format::Text => lines("one\r\ntwo\n\nthree"),
    }
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
        .expect(WRITTEN)
    };
    lengths.iter().map(batch).collect()
}

pub(crate) fn arrow_file(lengths: &[usize]) -> Vec<u8> {
    let batches = batches(lengths, true);
    let schema = batches[0].schema();
    let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &schema).expect(WRITTEN);
    batches.iter().for_each(|batch| file.write(batch).expect(WRITTEN));
    file.into_inner().expect(WRITTEN)
}

pub(crate) fn arrow_stream(lengths: &[usize]) -> Vec<u8> {
    let batches = batches(lengths, false);
    let schema = batches[0].schema();
    let mut file = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &schema).expect(WRITTEN);
    batches.iter().for_each(|batch| file.write(batch).expect(WRITTEN));
    file.into_inner().expect(WRITTEN)
}

/// A row group a batch, of small pages.
pub(crate) fn parquet(lengths: &[usize], way: Compression) -> Vec<u8> {
    let batches = batches(lengths, false);
    let properties = WriterProperties::builder()
        .set_compression(way)
        .set_data_page_row_count_limit(700)
        .set_write_batch_size(100)
        .build();
    let schema = batches[0].schema();
    let mut file = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).expect(WRITTEN);
    for batch in &batches {
        file.write(batch).expect(WRITTEN);
        file.flush().expect(WRITTEN);
    }
    file.into_inner().expect(WRITTEN)
}
