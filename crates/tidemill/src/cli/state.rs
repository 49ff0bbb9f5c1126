//! `tidemill state …`: the states of a job's stages, looked at.
//!
//! A node is asked by the job's name. A job that `tidemill run` ran in a folder is named by its file,
//! with that folder; it must not be running.

mod node_states;

use super::checkpoint::OfArguments;
use super::node::{NodeArguments, word};
use super::{FAILED, REFUSED, load, print_all, printed_all};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::{
    fmt,
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    str::FromStr,
};
use tidemill::table::grid;
use tidemill_checkpoints::Checkpoints;
use tidemill_connectors::rows_as;
use tidemill_env::World;
use tidemill_flow::{QueryableStages, StageSnapshot};
use tidemill_node::{
    Registry,
    plan::PlanOptions,
    preview::text_of,
    state_query::{self, Answer, StateError},
    stored_checkpoints,
};
use tidemill_types::{CheckpointNumber, job::Format};

#[derive(Debug, Subcommand)]
pub(super) enum StateCommand {
    /// Shows the tables as which the states of a job can be looked at, with their columns.
    Tables(OfArguments),
    /// Asks the state of a stage with SQL.
    Query(QueryArguments),
    /// Writes the tables of a stage's state as Arrow files.
    Export(ExportArguments),
}

/// The state that is meant.
#[derive(Debug, Args)]
struct StateArguments {
    #[command(flatten)]
    of: OfArguments,
    /// The stage, as `tables` shows it.
    stage: String,
    /// A checkpoint's number, as `tidemill checkpoint list` shows it, or `newest`. Default: the state
    /// as it is, if the job runs on a node; else that of the newest checkpoint.
    #[arg(long, value_name = "NUMBER")]
    checkpoint: Option<CheckpointOf>,
}

/// A checkpoint of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckpointOf {
    Newest,
    Number(CheckpointNumber),
}

impl FromStr for CheckpointOf {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "newest" => Ok(Self::Newest),
            number => match number.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(CheckpointNumber(number))),
                _ => Err("a number from 1, or `newest`, is expected"),
            },
        }
    }
}

impl fmt::Display for CheckpointOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => f.write_str("newest"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct QueryArguments {
    #[command(flatten)]
    state: StateArguments,
    /// A `SELECT` over one of the stage's tables, such as "SELECT * FROM state LIMIT 10".
    sql: String,
    /// The form of the answer.
    #[arg(long, value_enum, default_value_t, conflicts_with = "json")]
    format: AnswerFormat,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum AnswerFormat {
    /// A table for a person.
    #[default]
    Table,
    /// A header, and a line for each row.
    Csv,
    /// An object for each row, one a line.
    Json,
    /// An Arrow file.
    Arrow,
}

#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    #[command(flatten)]
    state: StateArguments,
    /// Only this table.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// A file that ends in `.arrow`, for one table; or a folder, which gets a file for each.
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
}

/// The exit code of a failure that was shown.
type ExitResult<T> = Result<T, u8>;

pub(super) fn run(command: &StateCommand) -> u8 {
    let done = match command {
        StateCommand::Tables(of) => tables(of),
        StateCommand::Query(arguments) => query(arguments),
        StateCommand::Export(arguments) => export(arguments),
    };
    done.unwrap_or_else(|code| code)
}

fn failed(node: &NodeArguments, error: &StateError) -> u8 {
    node.wrong(error, if error.is_asked_wrong() { REFUSED } else { FAILED })
}

/// A job in a folder, that does not run.
struct Stored {
    job: String,
    stages: QueryableStages,
    checkpoints: Checkpoints,
}

impl Stored {
    fn open(of: &OfArguments, data: &Path) -> ExitResult<Self> {
        let (descriptor, world) = (of.job_in(data)?, World::real());
        let base_dir = load::base_dir(&of.file());
        let options = PlanOptions { base_dir, ..PlanOptions::default() };
        let stages = state_query::stages(&descriptor, &options, &world, &Registry::default());
        let stages = stages.map_err(|refused| {
            load::show_refusal(&refused, of.node.json);
            REFUSED
        })?;
        let checkpoints = stored_checkpoints(&descriptor.spec, data, &world);
        let checkpoints = checkpoints.map_err(|error| failed(&of.node, &error.into()))?;
        let checkpoints = checkpoints.ok_or_else(|| {
            let message = format!("{}: {}", descriptor.file, tidemill_flow::AskError::None);
            of.node.wrong(message, REFUSED)
        })?;
        Ok(Self { job: descriptor.spec.name, stages, checkpoints })
    }

    fn look(&self, state: &StateArguments) -> ExitResult<StageSnapshot> {
        let number = match state.checkpoint {
            Some(CheckpointOf::Number(number)) => Some(number),
            Some(CheckpointOf::Newest) | None => None,
        };
        state_query::in_checkpoint(&self.stages, &state.stage, &self.checkpoints, number)
            .map_err(|error| failed(&state.of.node, &error))
    }
}

fn tables(of: &OfArguments) -> ExitResult<u8> {
    let Some(data) = &of.data else { return node_states::tables(of) };
    let stored = Stored::open(of, data)?;
    let document = json!({ "tables": state_query::tables(&stored.stages) });
    if of.node.json {
        return Ok(print_all(&format!("{document}\n")));
    }
    Ok(print_all(&show_tables(&document["tables"])))
}

fn show_tables(tables: &Value) -> String {
    let none = Vec::new();
    let mut rows = Vec::new();
    for table in tables.as_array().unwrap_or(&none) {
        for column in table["columns"].as_array().unwrap_or(&none) {
            let nullable = if column["nullable"] == true { "null" } else { "" };
            let (name, data_type) = (word(&column["name"]), word(&column["type"]));
            let place = [word(&table["stage"]), word(&table["table"])];
            rows.push(place.into_iter().chain([name, data_type, nullable.to_owned()]).collect());
        }
    }
    if rows.is_empty() {
        return "no stage of the job has a state to look at\n".to_owned();
    }
    format!("{}\n", grid(&["stage", "table", "column", "type", ""], &[false; 5], &rows))
}

fn query(arguments: &QueryArguments) -> ExitResult<u8> {
    let state = &arguments.state;
    let Some(data) = &state.of.data else { return node_states::query(arguments) };
    let stored = Stored::open(&state.of, data)?;
    let look = stored.look(state)?;
    let of = (stored.job.as_str(), &stored.stages, state.stage.as_str());
    let answer = state_query::query(of, &arguments.sql, |_| Ok(look));
    let answer = answer.map_err(|it| failed(&state.of.node, &it))?;
    show_answer(arguments, &answer)
}

fn show_answer(arguments: &QueryArguments, answer: &Answer) -> ExitResult<u8> {
    let node = &arguments.state.of.node;
    let format = match node.json {
        true => AnswerFormat::Json,
        false => arguments.format,
    };
    let rows = |format| {
        rows_as(format, &answer.schema, &answer.batches).map_err(|error| node.wrong(error, FAILED))
    };
    let bytes = match format {
        AnswerFormat::Table => text(answer).into_bytes(),
        AnswerFormat::Csv => rows(Format::Csv)?,
        AnswerFormat::Json => rows(Format::Json)?,
        AnswerFormat::Arrow => {
            state_query::arrow_file(answer).map_err(|error| failed(node, &error))?
        }
    };
    let mut out = std::io::stdout().lock();
    Ok(printed_all(out.write_all(&bytes).and_then(|()| out.flush())))
}

/// The answer for a person, with a line that says of which state it is.
fn text(answer: &Answer) -> String {
    let fields = answer.schema.fields();
    let names: Vec<&str> = fields.iter().map(|it| it.name().as_str()).collect();
    let numeric: Vec<bool> = fields.iter().map(|it| it.data_type().is_numeric()).collect();
    let cell = |it: Option<String>| it.unwrap_or_else(|| "null".to_owned());
    let rows: Vec<Vec<String>> = answer
        .batches
        .iter()
        .flat_map(text_of)
        .map(|row| row.into_iter().map(cell).collect())
        .collect();
    let of = |key: &str| answer.schema.metadata().get(key).map_or("", String::as_str);
    let (cycle, checkpoint) = (of("tidemill.cycle"), of("tidemill.checkpoint"));
    let from = match checkpoint {
        "" => "live".to_owned(),
        number => format!("checkpoint {number}"),
    };
    let count = match rows.len() {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    };
    format!("{}\n{count}, as of cycle {cycle} ({from})\n", grid(&names, &numeric, &rows))
}

fn export(arguments: &ExportArguments) -> ExitResult<u8> {
    let (state, to) = (&arguments.state, &arguments.to);
    let node = &state.of.node;
    let Some(data) = &state.of.data else { return node_states::export(arguments) };
    let stored = Stored::open(&state.of, data)?;
    let look = stored.look(state)?;
    let tables = match &arguments.table {
        Some(table) => vec![table.clone()],
        None => state_query::tables_of_stage(&stored.stages, &state.stage)
            .map_err(|it| failed(node, &it))?,
    };
    let mut written = Vec::new();
    for (table, path) in places(node, to, &state.stage, &tables)? {
        let nth = state_query::table(&stored.stages, &state.stage, &table);
        let nth = nth.map_err(|it| failed(node, &it))?;
        let of = (stored.job.as_str(), &stored.stages);
        let rows = whole(node, &path, |out| state_query::export(of, &look, nth, out))?;
        let path = path.display().to_string();
        let (checkpoint, cycle) = (look.checkpoint, look.cycle);
        written.push(json!({ "table": table, "file": path, "rows": rows, "checkpoint": checkpoint, "cycle": cycle }));
    }
    let (checkpoint, cycle) = (look.checkpoint, look.cycle);
    Ok(show_export(state, &json!({ "checkpoint": checkpoint, "cycle": cycle, "files": written })))
}

fn show_export(state: &StateArguments, document: &Value) -> u8 {
    if state.of.node.json {
        return print_all(&format!("{document}\n"));
    }
    let none = Vec::new();
    let line = |it: &Value| {
        let from = match word(&it["checkpoint"]).as_str() {
            "" => String::new(),
            number => format!(" of checkpoint {number}"),
        };
        let (file, rows, cycle) = (word(&it["file"]), word(&it["rows"]), word(&it["cycle"]));
        format!("{file}: {rows} rows{from}, as of cycle {cycle}\n")
    };
    print_all(&document["files"].as_array().unwrap_or(&none).iter().map(line).collect::<String>())
}

/// The file of each table.
fn places(
    node: &NodeArguments,
    to: &Path,
    stage: &str,
    tables: &[String],
) -> ExitResult<Vec<(String, PathBuf)>> {
    if to.extension().is_some_and(|it| it == "arrow") && !to.is_dir() {
        let [table] = tables else {
            let all: Vec<String> = tables.iter().map(|it| format!("`{it}`")).collect();
            let all = all.join(", ");
            let message =
                format!("`{stage}` has the tables {all}: say which with --table, or name a folder");
            return Err(node.wrong(message, REFUSED));
        };
        return Ok(vec![(table.clone(), to.to_owned())]);
    }
    fs::create_dir_all(to).map_err(|error| cannot_write(node, to, &error))?;
    let file = |table: &String| (table.clone(), to.join(format!("{stage}.{table}.arrow")));
    Ok(tables.iter().map(file).collect())
}

fn cannot_write(node: &NodeArguments, path: &Path, error: &std::io::Error) -> u8 {
    node.wrong(format_args!("{}: {error}", path.display()), FAILED)
}

/// Writes a file that is there as a whole, or as it was before.
fn whole<T>(
    node: &NodeArguments,
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<T, StateError>,
) -> ExitResult<T> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let mut file =
        BufWriter::new(File::create(&beside).map_err(|it| cannot_write(node, &beside, &it))?);
    let unwritten = |error: StateError| match error {
        StateError::Write(error) => {
            node.wrong(format_args!("{}: {error}", beside.display()), FAILED)
        }
        other => failed(node, &other),
    };
    let written = write(&mut file).map_err(unwritten).and_then(|written| {
        // Only now the last of it is written, and only a sync tells of all that went wrong.
        let synced = file.into_inner().map_err(|error| error.into_error());
        let synced = synced.and_then(|file| file.sync_all());
        synced.map_err(|error| cannot_write(node, &beside, &error)).map(|()| written)
    });
    match written {
        Ok(written) => {
            fs::rename(&beside, path).map_err(|error| cannot_write(node, path, &error))?;
            Ok(written)
        }
        Err(code) => {
            // What is left over of it is of no use.
            let _gone = fs::remove_file(&beside);
            Err(code)
        }
    }
}
