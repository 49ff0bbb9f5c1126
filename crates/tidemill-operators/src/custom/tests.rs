//! Functions of the program, on columns and on byte records.

use super::*;
use crate::testing::shown;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Float32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, cast::AsArray, types::Int64Type,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_flow::{OperatorFactory, Partition, Payload, Rows, rows_schema, trial::Trial};

fn schema(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

fn counts_schema() -> SchemaRef {
    schema(vec![Field::new("word", DataType::Utf8, false), Field::new("n", DataType::Int64, false)])
}

fn words(words: &[&str]) -> RecordBatch {
    let fields = vec![Field::new("word", DataType::Utf8, true)];
    let column: ArrayRef = Arc::new(StringArray::from(words.to_vec()));
    RecordBatch::try_new(schema(fields), vec![column]).unwrap()
}

fn word_count() -> Arc<dyn OperatorFactory> {
    Arc::new(keyed_record(
        counts_schema(),
        state::Map::<String, i64>::default,
        |counts, record, emit, _| {
            let word = record.str("word")?.unwrap_or_default();
            let n = counts.get_or_default(word.to_owned());
            *n += 1;
            emit.row(|row| {
                row.str(word).i64(*n);
            })
        },
    ))
}

fn pairs(batches: &[(usize, RecordBatch)]) -> Vec<(String, i64)> {
    batches
        .iter()
        .flat_map(|(_, batch)| {
            let words = batch.column(0).as_string::<i32>();
            let numbers = batch.column(1).as_primitive::<Int64Type>();
            (0..batch.num_rows()).map(|row| (words.value(row).to_owned(), numbers.value(row)))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn words_are_counted_the_same_in_any_lanes(
        cycles in prop::collection::vec(
            prop::collection::vec(prop::collection::vec("[a-f]{1,2}", 0..8), 0..4), 1..6),
    ) {
        let run = |lanes| {
            let key = Partition::Key(vec![0]);
            let mut trial = Trial::new(word_count(), vec![key], 6, lanes);
            let mut out = Vec::new();
            for cycle in &cycles {
                let batch = |text: &Vec<String>| {
                    words(&text.iter().map(String::as_str).collect::<Vec<_>>())
                };
                let blocks = cycle.iter().map(batch).collect();
                out.push(pairs(&trial.cycle(vec![blocks], Micros::MIN, false).unwrap()));
            }
            out
        };
        let one = run(1);
        prop_assert_eq!(&one, &run(2));
        prop_assert_eq!(&one, &run(6));
        let mut model: BTreeMap<String, i64> = BTreeMap::new();
        for (cycle, out) in cycles.iter().zip(&one) {
            let mut wanted: Vec<(String, i64)> = cycle.iter().flatten().map(|word| {
                let n = model.entry(word.clone()).or_default();
                *n += 1;
                (word.clone(), *n)
            }).collect();
            wanted.sort();
            let mut got = out.clone();
            got.sort();
            prop_assert_eq!(got, wanted);
        }
    }

    /// As an operator that copies what it keeps.
    #[test]
    fn a_filter_keeps_what_its_function_wants(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 0..40),
        cut in 0..40_usize,
        least in 0..4_usize,
        lanes in 1..4_u32,
        partition in prop_oneof![
            Just(Partition::Key(vec![0])), Just(Partition::One), Just(Partition::All),
        ],
    ) {
        let cut = cut.min(records.len());
        let run = |factory: Arc<dyn OperatorFactory>| {
            let mut trial = Trial::new(factory, vec![partition.clone()], 6, lanes);
            let block = |records: &[Vec<u8>]| {
                let mut rows = Rows::default();
                records.iter().for_each(|record| rows.push(record));
                Payload::Rows(rows)
            };
            let column: ArrayRef = Arc::new(BinaryArray::from_iter_values(&records));
            let columns = RecordBatch::try_new(rows_schema(), vec![column]).unwrap();
            let ports =
                vec![block(&records[..cut]), Payload::Arrow(columns), block(&records[cut..])];
            let out = trial.cycle_payloads(vec![ports], Micros::MIN, false).unwrap();
            let of = |batch: RecordBatch| {
                let column = batch.column(0).as_binary::<i32>().clone();
                (0..column.len()).map(|row| column.value(row).to_vec()).collect::<Vec<_>>()
            };
            out.into_iter().flat_map(|(_, batch)| of(batch)).collect::<Vec<_>>()
        };
        let kept = run(Arc::new(filter_bytes(move |record| Ok(record.len() >= least))));
        let copied = run(Arc::new(per_record_bytes(move |record, output| {
            if record.len() >= least {
                output.push(record);
            }
            Ok(())
        })));
        prop_assert_eq!(kept, copied);
    }

    #[test]
    fn byte_records_come_by_slice_in_order(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 0..40),
        cut in 0..40_usize,
        lanes in 1..4_u32,
    ) {
        let cut = cut.min(records.len());
        let run = |lanes, arrow: bool| {
            let relay = Arc::new(per_record_bytes(|record, output| {
                output.push(record);
                Ok(())
            }));
            let mut trial = Trial::new(relay, vec![Partition::Key(vec![0])], 6, lanes);
            let block = |records: &[Vec<u8>]| {
                if arrow {
                    let column = BinaryArray::from_iter_values(records);
                    return Payload::Arrow(
                        RecordBatch::try_new(rows_schema(), vec![Arc::new(column)]).unwrap(),
                    );
                }
                let mut rows = Rows::default();
                records.iter().for_each(|record| rows.push(record));
                Payload::Rows(rows)
            };
            let ports = vec![vec![block(&records[..cut]), block(&records[cut..])]];
            let out = trial.cycle_payloads(ports, Micros::MIN, false).unwrap();
            out.iter()
                .flat_map(|(_, batch)| {
                    let column = batch.column(0).as_binary::<i32>().clone();
                    (0..column.len()).map(move |row| column.value(row).to_vec())
                })
                .collect::<Vec<_>>()
        };
        let out = run(lanes, false);
        prop_assert_eq!(&out, &run(1, true));
        let slice = |record: &Vec<u8>| {
            tidemill_flow::partition::slice_of(tidemill_flow::partition::hash_bytes(record), 6)
        };
        let mut wanted = records.clone();
        wanted.sort_by_key(slice);
        prop_assert_eq!(out, wanted);
    }

    #[test]
    fn batches_hold_each_row_once_by_slice(
        values in prop::collection::vec(0..50_i64, 1..60), cut in 0..60_usize, lanes in 1..4_u32,
    ) {
        let fields = schema(vec![Field::new("v", DataType::Int64, false)]);
        let batch = |values: &[i64]| {
            let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
            RecordBatch::try_new(Arc::clone(&fields), vec![column]).unwrap()
        };
        let same = Arc::new(per_batch(Arc::clone(&fields), |batch, emit| {
            emit.batch(batch.clone())
        }));
        let cut = cut.min(values.len());
        let blocks = vec![batch(&values[..cut]), batch(&values[cut..])];
        let run = |factory: Arc<dyn OperatorFactory>| {
            let mut trial = Trial::new(factory, vec![Partition::Key(vec![0])], 5, lanes);
            let out = trial.cycle(vec![blocks.clone()], Micros::MIN, false).unwrap();
            out.iter()
                .flat_map(|(_, batch)| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
                .collect::<Vec<i64>>()
        };
        let out = run(same);
        let slice = |value: &i64| {
            let hash = hash_number(*value as u64);
            tidemill_flow::partition::slice_of(hash, 5)
        };
        let mut wanted = values.clone();
        wanted.sort_by_key(slice);
        prop_assert_eq!(&out, &wanted);
        // The same through a function of slices, by row and as one batch.
        let rows = Arc::new(keyed(Arc::clone(&fields), || (), |(), input, emit, _| {
            let mut all = Vec::new();
            for rows in input.batches() {
                let column = rows.batch().column(0).as_primitive::<Int64Type>();
                all.extend(rows.rows().map(|row| column.value(row)));
            }
            let copied = input.to_batch()?.expect("called only for slices with rows");
            assert_eq!(copied.column(0).as_primitive::<Int64Type>().values(), &all[..]);
            assert_eq!(all.len(), input.len());
            all.into_iter().try_for_each(|value| emit.row(|row| { row.put(value); }))
        }));
        prop_assert_eq!(run(rows), wanted);
    }
}

/// Runs a function on one record `(n: i64 or null, x: f32, at, __time)`.
fn on_one(
    output: SchemaRef,
    function: impl Fn(&Record<'_>, &mut Emit, &CycleInfo) -> Result<(), tidemill_flow::OperatorError>
    + Send
    + Sync
    + 'static,
) -> Result<Vec<(usize, RecordBatch)>, String> {
    let input = with_time(&Schema::new(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("x", DataType::Float32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![None, Some(7)])),
        Arc::new(Float32Array::from(vec![0.5, 1.5])),
        Arc::new(arrow_array::TimestampMillisecondArray::from(vec![3, 4])),
        Arc::new(TimestampMicrosecondArray::from(vec![10, 20]).with_timezone("UTC")),
    ];
    let batch = RecordBatch::try_new(input, columns).unwrap();
    let mut trial =
        Trial::new(Arc::new(per_record(output, function)), vec![Partition::Local], 1, 1);
    trial.cycle(vec![vec![batch]], Micros(5), false).map_err(|error| error.message)
}

#[test]
fn a_record_gives_typed_values_nulls_and_its_time() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    on_one(counts_schema(), move |record, _, info| {
        let values =
            (record.i64("n")?, record.f64("x")?, record.f64("n")?, record.timestamp("at")?);
        into.lock().unwrap().push((values, record.time(), info.watermark));
        Ok(())
    })
    .unwrap();
    let at = |time: i64| Some(Micros(time));
    assert_eq!(
        *seen.lock().unwrap(),
        vec![
            ((None, Some(0.5), None, at(3_000)), at(10), Micros(5)),
            ((Some(7), Some(1.5), Some(7.0), at(4_000)), at(20), Micros(5)),
        ]
    );
}

#[test]
fn a_row_has_the_time_of_its_record_unless_it_says_another() {
    let output = with_time(&Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let out = on_one(output, |record, emit, _| {
        let n = record.i64("n")?;
        emit.row(|row| {
            row.put(n);
            if n.is_some() {
                row.time(Micros(99));
            }
        })
    })
    .unwrap();
    let times = out[0].1.column(1).as_primitive::<arrow_array::types::TimestampMicrosecondType>();
    assert_eq!(times.values().to_vec(), vec![10, 99]);
}

#[test]
fn a_row_for_windows_has_a_time_or_is_refused() {
    let output = with_time(&Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let refused = |factory: Arc<dyn OperatorFactory>| {
        let mut trial = Trial::new(factory, vec![Partition::Local], 1, 1);
        let error = trial.cycle(vec![vec![words(&["a"])]], Micros(5), true).unwrap_err();
        assert!(error.message.starts_with("a row has no event time"), "{}", error.message);
    };
    let write = |emit: &mut Emit, time: Option<Micros>| {
        emit.row(|row| {
            row.put(1_i64);
            if let Some(time) = time {
                row.time(time);
            }
        })
    };
    let schema = || Arc::clone(&output);
    refused(Arc::new(keyed(schema(), || (), move |(), _, emit, _| write(emit, None))));
    let nothing = |(): &mut (), _: &Record<'_>, _: &mut Emit, _: &CycleInfo| Ok(());
    let closing = move |(): &mut (), emit: &mut Emit, _: &CycleInfo| write(emit, None);
    refused(Arc::new(keyed_record(schema(), || (), nothing).on_cycle(closing)));
    refused(Arc::new(keyed_record(schema(), || (), nothing).on_end(closing)));
    // A record that has none itself.
    refused(Arc::new(per_record(schema(), move |_, emit, _| write(emit, None))));
    let of_batch = schema();
    refused(Arc::new(per_batch(schema(), move |_, emit| {
        let times = TimestampMicrosecondArray::from(vec![Some(1), None]).with_timezone("UTC");
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(times)];
        emit.batch(RecordBatch::try_new(Arc::clone(&of_batch), columns).unwrap())
    })));
    let said = keyed(schema(), || (), move |(), _, emit, _| write(emit, Some(Micros(7))));
    let mut trial = Trial::new(Arc::new(said), vec![Partition::Local], 1, 1);
    let out = trial.cycle(vec![vec![words(&["a"])]], Micros(5), false).unwrap();
    let times = out[0].1.column(1).as_primitive::<arrow_array::types::TimestampMicrosecondType>();
    assert_eq!(times.values().to_vec(), vec![7]);
}

#[test]
fn mistakes_name_the_column() {
    let check = |got: Result<Vec<(usize, RecordBatch)>, String>, wanted: &str| {
        assert_eq!(got.unwrap_err(), wanted);
    };
    check(
        on_one(counts_schema(), |record, _, _| record.i64("nn").map(|_| ())),
        "unknown column `nn`; did you mean `n`?",
    );
    check(
        on_one(counts_schema(), |record, _, _| record.str("x").map(|_| ())),
        "the column `x` of type Float32 is not text",
    );
    check(
        on_one(counts_schema(), |_, emit, _| {
            emit.row(|row| {
                row.put(1.5).put(1_i64);
            })
        }),
        "a float was written to the column `word` of type Utf8",
    );
    check(
        on_one(counts_schema(), |_, emit, _| {
            emit.row(|row| {
                row.str("a");
            })
        }),
        "a row has no value for the column `n`",
    );
    check(
        on_one(counts_schema(), |_, emit, _| {
            emit.row(|row| {
                row.str("a").i64(1).i64(2);
            })
        }),
        "a row has more values than the 2 columns of the output",
    );
    check(
        on_one(counts_schema(), |_, emit, _| {
            emit.row(|row| {
                row.null().i64(1);
            })
        }),
        "null was written to the column `word`, which has no nulls",
    );
    let small = schema(vec![Field::new("small", DataType::Int32, false)]);
    check(
        on_one(small, |_, emit, _| {
            emit.row(|row| {
                row.i64(1 << 40);
            })
        }),
        "1099511627776 was written to the column `small` of type Int32",
    );
    check(
        on_one(counts_schema(), |_, emit, _| emit.batch(words(&["a"]))),
        "a batch has 1 columns, but the output has 2",
    );
    let timed = with_time(&Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    for time in [Micros::MIN, Micros(Micros::EVENT_MAX.0 + 1)] {
        check(
            on_one(Arc::clone(&timed), move |_, emit, _| {
                emit.row(|row| {
                    row.i64(1).time(time);
                })
            }),
            "the event time of a row is not within the years 0000 to 9999",
        );
    }
    let relay = Arc::new(per_record_bytes(|_, _| Ok(())));
    let mut trial = Trial::new(relay, vec![Partition::Local], 1, 1);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let fields = schema(vec![Field::new("n", DataType::Int64, false)]);
    let batch = RecordBatch::try_new(fields, vec![column]).unwrap();
    let error = trial.cycle(vec![vec![batch]], Micros::MIN, false).unwrap_err();
    assert!(error.message.contains("its input has (n Int64)"), "{}", error.message);
}

#[test]
fn what_cannot_be_processed_goes_to_the_dead_letters_with_its_row() {
    let picky = per_record(counts_schema(), |record, emit, _| {
        let word = record.str("word")?.unwrap_or_default();
        if word.is_empty() {
            emit.dead_letter("an empty word", b"raw");
            return Ok(());
        }
        emit.row(|row| {
            row.str(word).i64(1);
        })
    });
    let mut trial = Trial::new(Arc::new(picky), vec![Partition::Local], 1, 1);
    let out = trial.cycle(vec![vec![words(&["a", ""]), words(&["", "b"])]], Micros::MIN, false);
    assert_eq!(pairs(&out.unwrap()), vec![("a".to_owned(), 1), ("b".to_owned(), 1)]);
    let places: Vec<&str> = trial.letters.iter().map(|it| it.position.as_str()).collect();
    assert_eq!(places, vec!["slice 0, row 1", "slice 0, row 2"]);
    assert!(trial.letters.iter().all(|it| it.record == b"raw" && it.reason == "an empty word"));
}

#[test]
fn what_a_function_of_batches_puts_aside_is_in_the_dead_letters() {
    let letters = |partition: Partition, lanes| {
        let picky = per_batch(counts_schema(), |batch, emit| {
            for word in batch.column(0).as_string::<i32>().iter().flatten() {
                emit.dead_letter("a word", word.as_bytes());
            }
            Ok(())
        });
        let mut trial = Trial::new(Arc::new(picky), vec![partition], 4, lanes);
        for blocks in [vec![words(&["a", "b"]), words(&["c"])], vec![words(&["d"])]] {
            trial.cycle(vec![blocks], Micros::MIN, false).unwrap();
        }
        assert!(trial.letters.iter().all(|it| it.position == "in a batch"));
        trial.letters.into_iter().map(|it| it.record).collect::<Vec<_>>()
    };
    assert_eq!(letters(Partition::Local, 1), [b"a", b"b", b"c", b"d"]);
    let by_key = letters(Partition::Key(vec![0]), 1);
    assert_eq!((by_key.len(), &by_key), (4, &letters(Partition::Key(vec![0]), 3)));
}

#[test]
fn closings_are_called_for_every_slice() {
    let sizes = |operator: KeyedRecord<state::Value<i64>, _>, cycles: &[bool]| {
        let mut trial = Trial::new(Arc::new(operator), vec![Partition::Key(vec![0])], 4, 2);
        let batches = |ended: &bool| {
            let port = if *ended { Vec::new() } else { vec![words(&["a", "b", "c", "d"])] };
            let out = trial.cycle(vec![port], Micros::MIN, *ended).unwrap();
            pairs(&out).iter().map(|(_, n)| *n).collect::<Vec<_>>()
        };
        cycles.iter().map(batches).collect::<Vec<_>>()
    };
    let count = || {
        keyed_record(
            counts_schema(),
            || state::Value::new(0_i64),
            |n: &mut state::Value<i64>, _, _, _| {
                *n.get_mut() += 1;
                Ok(())
            },
        )
    };
    let closing = |n: &mut state::Value<i64>, emit: &mut Emit, _: &CycleInfo| {
        emit.row(|row| {
            row.str("").i64(*n.get());
        })
    };
    let every = sizes(count().on_cycle(closing), &[false, false, true]);
    let totals: Vec<(usize, i64)> = every.iter().map(|it| (it.len(), it.iter().sum())).collect();
    assert_eq!(totals, vec![(4, 4), (4, 8), (4, 8)]);
    let end = sizes(count().on_end(closing), &[false, false, true]);
    assert!(end[0].is_empty() && end[1].is_empty());
    assert_eq!((end[2].len(), end[2].iter().sum::<i64>()), (4, 8));
}

#[test]
fn randomness_is_of_the_cycle_and_slice_and_repeats() {
    let run = || {
        let random = keyed(
            counts_schema(),
            || (),
            |(), _, emit, info| {
                emit.row(|row| {
                    row.str("").i64((info.random(0) >> 1) as i64);
                })
            },
        );
        let mut trial = Trial::new(Arc::new(random.every_cycle()), vec![Partition::Local], 3, 1);
        let mut cycle = || pairs(&trial.cycle(vec![], Micros::MIN, false).unwrap());
        [cycle(), cycle()].concat()
    };
    let numbers = run();
    assert_eq!(numbers, run());
    let different: std::collections::BTreeSet<i64> = numbers.iter().map(|(_, n)| *n).collect();
    assert_eq!(different.len(), 6);
}

#[test]
fn a_function_with_another_state_is_another_one() {
    let does = |factory: &dyn OperatorFactory| factory.does();
    let expected = "a function with the state Map<String, i64> to word Utf8, n Int64";
    assert_eq!(does(&*word_count()), expected);
    let numbers = keyed(counts_schema(), state::Map::<i64, i64>::default, |_, _, _, _| Ok(()));
    assert_eq!(does(&numbers), expected.replace("String", "i64"));
}

/// Two structures with names.
struct Named {
    counts: state::Map<String, (i64, bool)>,
    last: state::Value<Option<i64>>,
}

impl tidemill_state::State for Named {
    fn structures(&mut self) -> Vec<&mut dyn tidemill_state::Structure> {
        vec![&mut self.counts, &mut self.last]
    }

    fn names(&self) -> Vec<&'static str> {
        vec!["counts", "last"]
    }
}

#[test]
fn the_structures_of_a_state_are_tables_with_their_names() {
    let factory: Arc<dyn OperatorFactory> = Arc::new(keyed_record(
        counts_schema(),
        || Named { counts: state::Map::default(), last: state::Value::default() },
        |state, record, _, info| {
            let word = record.str("word")?.unwrap_or_default();
            let entry = state.counts.get_or_default(word.to_owned());
            *entry = (entry.0 + 1, true);
            state.last.set(Some(info.cycle.0 as i64));
            Ok(())
        },
    ));
    let tables: Vec<String> = factory
        .tables()
        .iter()
        .map(|it| format!("{}({})", it.name, tidemill_flow::columns_in_words(&it.schema)))
        .collect();
    assert_eq!(tables, ["counts(key Utf8, value Utf8)", "last(value Int64)"]);
    let mut trial = Trial::new(factory, vec![Partition::One], 1, 1);
    for _ in 0..5 {
        trial.cycle(vec![vec![words(&["b", "a", "b"])]], Micros::MIN, false).unwrap();
    }
    assert_eq!(shown(&mut trial, 0), ["b [10,true]", "a [5,true]"]);
    assert_eq!(shown(&mut trial, 1), ["5"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_map_shows_what_was_counted(
        cycles in prop::collection::vec(prop::collection::vec("[a-f]{1,2}", 0..8), 1..9),
    ) {
        let mut trial = Trial::new(word_count(), vec![Partition::Key(vec![0])], 6, 2);
        let mut model: BTreeMap<String, i64> = BTreeMap::new();
        for cycle in &cycles {
            let text: Vec<&str> = cycle.iter().map(String::as_str).collect();
            trial.cycle(vec![vec![words(&text)]], Micros::MIN, false).unwrap();
            cycle.iter().for_each(|word| *model.entry(word.clone()).or_default() += 1);
            let mut shown = shown(&mut trial, 0);
            shown.sort();
            let mut wanted: Vec<String> =
                model.iter().map(|(word, n)| format!("{word} {n}")).collect();
            wanted.sort();
            prop_assert_eq!(shown, wanted);
        }
    }
}
