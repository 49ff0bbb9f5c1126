//! `regexp_match`: a group that took no part in a match is null. Arrow leaves it out, so that those
//! behind it stand in its place.

use arrow_array::{
    Array, ArrayRef, StringArray,
    builder::{ListBuilder, StringBuilder},
    cast::AsArray,
};
use arrow_cast::cast;
use arrow_schema::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use regex::Regex;
use std::{collections::BTreeMap, sync::Arc};

/// The function with all groups of its matches.
pub(super) fn matched(
    function: &ScalarUDF,
    arguments: ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    let args = arguments.args.clone();
    let made = function.invoke_with_args(arguments)?;
    let is_constant = matches!(made, ColumnarValue::Scalar(_));
    let texts = ColumnarValue::values_to_arrays(&args)?;
    let texts = texts.iter().map(|it| cast(it, &DataType::Utf8)).collect::<Result<Vec<_>, _>>()?;
    let texts: Vec<&StringArray> = texts.iter().map(|it| it.as_string::<i32>()).collect();
    let rows = texts.first().map_or(0, |it| it.len());
    let list = made.to_array(rows)?;
    let mut patterns = BTreeMap::new();
    let mut all = ListBuilder::new(StringBuilder::new());
    let mut is_changed = false;
    for row in 0..rows {
        if list.is_null(row) {
            all.append_null();
            continue;
        }
        let flags = texts.get(2).filter(|it| it.is_valid(row)).map_or("", |it| it.value(row));
        let pattern = (texts[1].value(row), flags);
        let pattern = patterns.entry(pattern).or_insert_with(|| compiled(pattern));
        // What does not compile, the function has refused.
        let found = pattern.as_ref().and_then(|it| it.captures(texts[0].value(row)));
        match found {
            Some(found) if found.len() > 1 => {
                let groups = found.iter().skip(1);
                is_changed |= groups.clone().any(|it| it.is_none());
                groups.for_each(|it| all.values().append_option(it.map(|it| it.as_str())));
            }
            Some(found) => all.values().append_value(&found[0]),
            None => {}
        }
        all.append(true);
    }
    if !is_changed {
        return Ok(made);
    }
    let all: ArrayRef = Arc::new(all.finish());
    let all = cast(&all, list.data_type())?;
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&all, 0)?),
        false => ColumnarValue::Array(all),
    })
}

fn compiled((pattern, flags): (&str, &str)) -> Option<Regex> {
    match flags {
        "" => Regex::new(pattern),
        flags => Regex::new(&format!("(?{flags}){pattern}")),
    }
    .ok()
}
