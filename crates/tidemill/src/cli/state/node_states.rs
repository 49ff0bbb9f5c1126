//! The states of a node's jobs, over HTTP. Rows come as Arrow files.
//!
//! Invariant: whatever answers, no memory is taken for lengths that its answer claims.

use super::super::node::{NodeArguments, answer, ask, ask_bytes, escaped};
use super::{
    CheckpointOf, ExitResult, ExportArguments, OfArguments, QueryArguments, StateArguments, places,
    show_answer, show_export, show_tables, whole,
};
use crate::cli::FAILED;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use serde_json::{Value, json};
use std::{
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
};
use tidemill_node::state_query::{ANSWER_ROWS_MAX, Answer};
use tidemill_types::CheckpointNumber;
use tidemill_wire::arrow::refuse_compressed_file;

#[cfg(test)]
mod tests;

/// Where a state is asked for.
fn state_path(
    state: &StateArguments,
    table: Option<&str>,
    checkpoint: Option<CheckpointOf>,
) -> ExitResult<String> {
    let mut path = format!("{}/state/{}", state.of.path_on_node()?, escaped(&state.stage));
    if let Some(table) = table {
        path.push_str(&format!("/{}", escaped(table)));
    }
    if let Some(checkpoint) = checkpoint {
        path.push_str(&format!("?checkpoint={checkpoint}"));
    }
    Ok(path)
}

pub(super) fn tables(of: &OfArguments) -> ExitResult<u8> {
    let path = format!("{}/state", of.path_on_node()?);
    Ok(answer(&of.node, ask(&of.node, "GET", &path, None), |it| show_tables(&it["tables"])))
}

pub(super) fn query(arguments: &QueryArguments) -> ExitResult<u8> {
    let state = &arguments.state;
    let body = json!({ "sql": arguments.sql });
    let file =
        bytes(&state.of.node, "POST", &state_path(state, None, state.checkpoint)?, Some(&body))?;
    show_answer(arguments, &read(&state.of.node, &file, ANSWER_ROWS_MAX)?)
}

pub(super) fn export(arguments: &ExportArguments) -> ExitResult<u8> {
    let (state, node) = (&arguments.state, &arguments.state.of.node);
    let tables = match &arguments.table {
        Some(table) => vec![table.clone()],
        None => tables_of_stage(state)?,
    };
    let (mut written, mut checkpoint, mut cycle) = (Vec::new(), Value::Null, Value::Null);
    let mut asked = state.checkpoint;
    for (table, path) in places(node, &arguments.to, &state.stage, &tables)? {
        let file = bytes(node, "GET", &state_path(state, Some(&table), asked)?, None)?;
        let answer = read(node, &file, usize::MAX)?;
        let of = |key: &str| {
            let text = answer.schema.metadata().get(key);
            text.and_then(|it| it.parse::<u64>().ok()).map_or(Value::Null, Value::from)
        };
        (checkpoint, cycle) = (of("tidemill.checkpoint"), of("tidemill.cycle"));
        // All tables are of the checkpoint that the first one is of.
        asked = checkpoint.as_u64().map(|it| CheckpointOf::Number(CheckpointNumber(it))).or(asked);
        let rows: usize = answer.batches.iter().map(|it| it.num_rows()).sum();
        whole(node, &path, |out| {
            Ok(out.write_all(&file).map_err(arrow_schema::ArrowError::from)?)
        })?;
        let path = path.display().to_string();
        written.push(json!({ "table": table, "file": path, "rows": rows, "checkpoint": checkpoint, "cycle": cycle }));
    }
    let document = json!({ "checkpoint": checkpoint, "cycle": cycle, "files": written });
    Ok(show_export(state, &document))
}

/// The names of a stage's tables; its own name in vain is refused by the node.
fn tables_of_stage(state: &StateArguments) -> ExitResult<Vec<String>> {
    let node = &state.of.node;
    let asked = ask(node, "GET", &format!("{}/state", state.of.path_on_node()?), None);
    let document = match asked {
        Ok((200, document)) => document,
        refused => return Err(answer(node, refused, |_| String::new())),
    };
    let none = Vec::new();
    let all = document["tables"].as_array().unwrap_or(&none).iter();
    let of_stage = all.filter(|it| it["stage"] == state.stage.as_str());
    let mut names: Vec<String> =
        of_stage.filter_map(|it| it["table"].as_str().map(str::to_owned)).collect();
    if names.is_empty() {
        names.push("state".to_owned());
    }
    Ok(names)
}

/// Asks for an Arrow file.
fn bytes(
    node: &NodeArguments,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> ExitResult<Vec<u8>> {
    match ask_bytes(node, method, path, body) {
        Ok((200, bytes)) => Ok(bytes),
        Ok((status, bytes)) => {
            let document = serde_json::from_slice(&bytes);
            let document = document.map_err(|_| format!("{} is no Tidemill node", node.http));
            Err(answer(node, document.map(|it| (status, it)), |_| String::new()))
        }
        Err(message) => Err(answer(node, Err(message), |_| String::new())),
    }
}

/// The rows of an Arrow file, at most `rows_max`. Its reader trusts offsets in places; a panic
/// in it is an error too.
fn rows(file: &[u8], rows_max: usize) -> Result<Answer, String> {
    let messages = refuse_compressed_file(file)?;
    let decode = || {
        let (mut decoder, mut rest) = (StreamDecoder::new(), Buffer::from(messages));
        let (mut batches, mut count) = (Vec::new(), 0_usize);
        while !rest.is_empty() {
            let batch = decoder.decode(&mut rest).map_err(|error| error.to_string())?;
            count = count.saturating_add(batch.as_ref().map_or(0, |it| it.num_rows()));
            if count > rows_max {
                return Err(format!("it has more than {rows_max} rows"));
            }
            batches.extend(batch);
        }
        let schema = decoder.schema().ok_or_else(|| "it has no schema".to_owned())?;
        Ok(Answer { schema, batches })
    };
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err("its parts contradict each other".to_owned()))
}

fn read(node: &NodeArguments, file: &[u8], rows_max: usize) -> ExitResult<Answer> {
    rows(file, rows_max).map_err(|error| {
        node.wrong(format_args!("{}: the answer cannot be read: {error}", node.http), FAILED)
    })
}
