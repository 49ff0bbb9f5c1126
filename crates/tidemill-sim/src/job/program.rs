//! Functions of a program with each kind of structure in their state, called for rows, cycles and ends.

use crate::sim_source;
use std::sync::Arc;
use tidemill_flow::OperatorFactory;
use tidemill_operators::custom::{
    self,
    state::{List, Queue, State, Structure, Value, Window},
};
use tidemill_types::Micros;

/// One value in this many is refused.
const REFUSED_ONE_IN: i64 = 17;
/// The number of values in the state.
const KEPT: usize = 3;

/// The last values of a slice, and how many there were.
#[derive(Default)]
struct Latest {
    values: Queue<i64>,
    /// By the last digit of the value: how often it came.
    digits: List<i64>,
    count: Value<i64>,
}

impl State for Latest {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![&mut self.values, &mut self.digits, &mut self.count]
    }
}

/// With each record the values before it in its slice; at the end, the totals of each slice.
pub(super) fn latest() -> Arc<dyn OperatorFactory> {
    let function =
        |state: &mut Latest, record: &custom::Record<'_>, emit: &mut custom::Emit, _: &_| {
            let key = record.i64("key")?.unwrap_or_default();
            let value = record.i64("value")?.unwrap_or_default();
            if value.rem_euclid(REFUSED_ONE_IN) == 1 {
                emit.dead_letter("it is of no use", &value.to_le_bytes());
                return Ok(());
            }
            while state.digits.len() < 10 {
                state.digits.push(0);
            }
            let digit = value.rem_euclid(10) as usize;
            if let Some(count) = state.digits.get_mut(digit) {
                *count += 1;
            }
            if state.values.len() == KEPT {
                state.values.pop();
            }
            state.values.push(value);
            *state.count.get_mut() += 1;
            let sum: i64 = state.values.iter().sum();
            let often = state.digits.get(digit).copied().unwrap_or_default();
            let count = *state.count.get();
            emit.row(|row| {
                row.put(key).put(sum + often * 1_000 + count * 1_000_000);
            })
        };
    let on_end = |state: &mut Latest, emit: &mut custom::Emit, info: &custom::CycleInfo| {
        let sum: i64 = state.digits.iter().sum();
        let count = *state.count.get();
        emit.row(|row| {
            row.put(i64::from(info.slice.0)).put(count * 1_000 + sum).time(Micros(count));
        })
    };
    let output = custom::with_time(&sim_source::schema());
    Arc::new(custom::keyed_record(output, Latest::default, function).on_end(on_end))
}

/// Holds rows back until event time has come to them: they leave in its order, in whatever cycle.
pub(super) fn held() -> Arc<dyn OperatorFactory> {
    let output = custom::with_time(&sim_source::schema());
    let held = custom::keyed(
        output,
        Window::<(i64, i64)>::default,
        |held: &mut Window<(i64, i64)>, input, emit, info| {
            if let Some(rows) = input.to_batch()? {
                custom::read_records(&rows, |record| {
                    let key = record.i64("key")?.unwrap_or_default();
                    let value = record.i64("value")?.unwrap_or_default();
                    held.push(record.time().unwrap_or(Micros(0)), (key, value));
                    Ok(())
                })?;
            }
            while let Some((time, (key, value))) = held.pop_before(info.watermark) {
                emit.row(|row| {
                    row.put(key).put(value).time(time);
                })?;
            }
            Ok(())
        },
    );
    Arc::new(held.every_cycle())
}
