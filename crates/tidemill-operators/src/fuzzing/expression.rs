//! Generated expressions over columns and constants of all types, with the properties that each must have:
//!
//! - planning refuses it, or every record has a value or becomes a dead letter,
//! - the result of a record does not depend on the records that share its batch,
//! - a constant gives the result of a column with the same value,
//! - a condition `p` splits the records into those where `p`, where `not p`, and where `p` is null.
//!
//! Used by tests and by the fuzz target `expression`.

use crate::transform::transform;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, cast::AsArray, types::Int64Type};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use arrow_select::take::take_record_batch;
use forms::Choices;
use rows::COLUMNS;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tidemill_flow::{OperatorFactory, Partition, trial::Trial};
use tidemill_types::{Micros, job::Named};

mod forms;
mod rows;

/// Rows that are evaluated together.
const ROWS: usize = 8;
/// Rows of the batch of which these are a part, before and behind them.
const AROUND: usize = 3;
/// The types of expressions, as forms name them: conditions most of all.
const KINDS: [char; 11] = ['b', 'n', 'b', 't', 'd', 's', 'b', 'v', 'l', 'w', 'o'];
/// Largest depth of a generated expression; a test evaluates it on the small stack of a thread.
const DEPTH_MAX: usize = 4;

/// Forms that may skip one of their parts, where a constant can decide the result in advance, and functions
/// that check their constants during planning. The results of columns and constants may differ in them.
const LEAVING_OUT: [&str; 9] =
    ["case", "coalesce", "nvl", " and ", " or ", " in (", "between", "to_char", "split_part"];
/// Why there may be a value with a column, or with a constant, and none with the other: a constant is
/// compared in the unit of the times beside it, and the digits of decimals follow from constants.
const OF_UNITS: [&str; 2] = ["converted value exceeds", "Arithmetic overflow"];

/// The result of each row by its id: a value, or the reason of its dead letter.
type RowResults = BTreeMap<i64, Result<ArrayRef, String>>;

/// Runs a stage on batches and returns the result of each row.
fn run(stage: &Arc<dyn OperatorFactory>, batches: Vec<RecordBatch>) -> Result<RowResults, String> {
    let ids: Vec<i64> = batches.iter().flat_map(ids).collect();
    let mut trial = Trial::new(Arc::clone(stage), vec![Partition::Local], 1, 1);
    let written = trial.cycle(vec![batches], Micros(0), false).map_err(|it| it.message)?;
    let mut outcome = RowResults::new();
    for (_, batch) in written {
        for (row, id) in ids_of(&batch) {
            let before = outcome.insert(id, Ok(batch.columns()[1].slice(row, 1)));
            assert!(before.is_none(), "row {id} comes twice");
        }
    }
    for letter in trial.letters {
        let row = letter.position.rsplit(' ').next().and_then(|it| it.parse::<usize>().ok());
        let id = ids[row.expect("the number of a row")];
        let before = outcome.insert(id, Err(letter.reason));
        assert!(before.is_none(), "row {id} has a value, and is a dead letter");
    }
    Ok(outcome)
}

fn ids(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn ids_of(batch: &RecordBatch) -> impl Iterator<Item = (usize, i64)> {
    ids(batch).into_iter().enumerate()
}

fn stage(
    batch: &RecordBatch,
    condition: Option<&str>,
    sql: &str,
) -> Result<Arc<dyn OperatorFactory>, String> {
    let select: Named<String> = [("id", "id"), ("x", sql)]
        .map(|(name, sql)| (name.to_owned(), sql.to_owned()))
        .into_iter()
        .collect();
    transform(&batch.schema(), None, condition, Some(&select)).map_err(|it| it.error.message)
}

/// A value, whatever its type allows: digits of decimals that are 0 say nothing.
fn in_words(value: &ArrayRef) -> String {
    let options = FormatOptions::new().with_null("null");
    let text = ArrayFormatter::try_new(value, &options)
        .map_or_else(|_| format!("{value:?}"), |it| it.value(0).to_string());
    match value.data_type() {
        DataType::Decimal128(..) | DataType::Decimal256(..) if text.contains('.') => {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => text,
    }
}

fn told(outcome: &RowResults) -> String {
    let one = |(id, it): (&i64, &Result<ArrayRef, String>)| match it {
        Ok(value) => format!("  {id}: {}\n", in_words(value)),
        Err(reason) => format!("  {id}: no value, {reason}\n"),
    };
    outcome.iter().map(one).collect()
}

/// Which rows have which value; why others have none may be said in another way.
fn values(outcome: &RowResults) -> BTreeMap<i64, Option<&ArrayRef>> {
    outcome.iter().map(|(id, it)| (*id, it.as_ref().ok())).collect()
}

/// Makes an expression of these bytes, and says whether it compiles.
///
/// # Panics
/// Something does not hold of it.
pub fn expression(bytes: &[u8]) -> bool {
    let mut choices = Choices(bytes);
    let (table, kind) = (choices.next(), choices.of(&KINDS));
    let form = forms::made(kind, DEPTH_MAX, &mut choices);
    holds(&form, table)
}

/// Checks an expression in which `$name;` is a column.
fn holds(form: &str, table: u8) -> bool {
    let sql = COLUMNS
        .iter()
        .fold(form.to_owned(), |sql, it| sql.replace(&format!("${};", it.name), it.name));
    let large = rows::rows(table, 0..ROWS + 2 * AROUND);
    let batch = rows::rows(table, AROUND..AROUND + ROWS);
    let Ok(made) = stage(&batch, None, &sql) else { return false };
    let Ok(together) = run(&made, vec![batch.clone()]) else { return true };
    assert_eq!(together.len(), ROWS, "{sql}: rows are missing");
    let alone = (0..ROWS as u32)
        .map(|row| take_record_batch(&batch, &UInt32Array::from(vec![row])).expect("a row"));
    let others = [
        ("row by row", alone.collect()),
        ("as a part", vec![large.slice(AROUND, ROWS)]),
        ("as parts of a row", (AROUND..AROUND + ROWS).map(|row| large.slice(row, 1)).collect()),
    ];
    for (how, batches) in others {
        let other = run(&made, batches).unwrap_or_else(|error| panic!("{sql}, {how}: {error}"));
        assert!(
            values(&together) == values(&other),
            "{sql}\n together:\n{} {how}:\n{}",
            told(&together),
            told(&other)
        );
    }
    constants_are_columns(form, &sql, (table, &batch), &together);
    if let Some(Ok(it)) = together.values().find(|it| it.is_ok())
        && *it.data_type() == DataType::Boolean
    {
        conditions_divide(&sql, &batch, &together);
    }
    true
}

/// Each column by itself, and all together, as constants of one row.
fn constants_are_columns(
    form: &str,
    sql: &str,
    (table, batch): (u8, &RecordBatch),
    all: &RowResults,
) {
    // How many digits a decimal is rounded to follows from what is known before there are records.
    if sql.contains("round(") && ["$small;", "$large;"].iter().any(|it| form.contains(it)) {
        return;
    }
    let named: Vec<_> =
        COLUMNS.iter().filter(|it| form.contains(&format!("${};", it.name))).collect();
    for (nth, one) in named.iter().map(|it| vec![*it]).chain([named.clone()]).enumerate() {
        let row = (usize::from(table) + 3 * nth) % ROWS;
        let id = (row + AROUND) as i64;
        let mut with = form.to_owned();
        for column in &named {
            let name = format!("${};", column.name);
            let is_one = one.iter().any(|it| it.name == column.name);
            let constant = is_one
                .then(|| rows::constant(column, rows::value(column, table, row + AROUND)))
                .flatten();
            with = with.replace(&name, constant.as_deref().unwrap_or(column.name));
        }
        let one = batch.slice(row, 1);
        let found = match stage(&one, None, &with) {
            Ok(made) => run(&made, vec![one]).unwrap_or_else(|it| panic!("{with}: {it}")),
            // Of a part that no row comes to, too, it is said that it has no value.
            Err(_) if LEAVING_OUT.iter().any(|it| sql.contains(it)) => continue,
            Err(error) => RowResults::from([(id, Err(format!("refused, {error}")))]),
        };
        let texts = |it: &RowResults| it[&id].as_ref().map(in_words).ok();
        let is_of_units = [&all[&id], &found[&id]]
            .iter()
            .any(|it| it.as_ref().is_err_and(|why| OF_UNITS.iter().any(|it| why.contains(it))));
        if is_of_units || (all[&id].is_err() && LEAVING_OUT.iter().any(|it| sql.contains(it))) {
            continue;
        }
        assert!(
            texts(all) == texts(&found),
            "{sql}\n{} {with}\n{}",
            told(&RowResults::from([(id, all[&id].clone())])),
            told(&found)
        );
    }
}

/// Rows are one of those `where` a condition is true, where it is not, and where it is null.
fn conditions_divide(sql: &str, batch: &RecordBatch, all: &RowResults) {
    let conditions = [sql.to_owned(), format!("not ({sql})"), format!("({sql}) is null")];
    let expected = |nth: usize| -> BTreeSet<i64> {
        let stays = |it: &Result<ArrayRef, String>| {
            let value = it.as_ref().is_ok_and(|it| match nth {
                2 => it.is_null(0),
                _ => it.is_valid(0) && it.as_boolean().value(0) == (nth == 0),
            });
            value || it.is_err()
        };
        all.iter().filter(|(_, it)| stays(it)).map(|(id, _)| *id).collect()
    };
    for (nth, condition) in conditions.iter().enumerate() {
        // DataFusion asks for the type of what is negated before types are settled, and refuses some.
        let made = match stage(batch, Some(condition), "id") {
            Err(_) if nth > 0 => continue,
            made => made.unwrap_or_else(|error| panic!("where {condition}: {error}")),
        };
        let found =
            run(&made, vec![batch.clone()]).unwrap_or_else(|it| panic!("{condition}: {it}"));
        let is_refused = |it: &RowResults| -> BTreeSet<i64> {
            it.iter().filter(|(_, it)| it.is_err()).map(|(id, _)| *id).collect()
        };
        let ids: BTreeSet<i64> = found.keys().copied().collect();
        assert!(
            ids == expected(nth) && is_refused(all) == is_refused(&found),
            "where {condition}\n{} the values are\n{}",
            told(&found),
            told(all)
        );
    }
}

/// An expression of each form.
#[must_use]
pub fn expression_seeds() -> Vec<Vec<u8>> {
    let seed = |nth: u32| -> Vec<u8> {
        let bits = |place: u32| (nth + 1).wrapping_mul(2_654_435_761).rotate_left(place * 5);
        (0..48).map(|place| (bits(place) >> 13) as u8).collect()
    };
    (0..64).map(seed).collect()
}

#[cfg(test)]
mod tests;
