//! `tidemill checkpoint …`: the checkpoints of a job, on a node or in a folder.
//!
//! A node is asked by the job's name. A job that `tidemill run` ran in a folder is named by its file,
//! with that folder; it must not be running.

use super::job::show_warnings;
use super::node::{NodeArguments, answer, ask, job_path, submission, word};
use super::{FAILED, JobArguments, REFUSED, load, print_all};
use clap::{Args, Subcommand, builder::TypedValueParser};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tidemill::table::grid;
use tidemill_checkpoints::{CheckpointError, Checkpoints};
use tidemill_env::World;
use tidemill_node::{CheckpointView, Descriptor, stored_checkpoints};
use tidemill_types::{ByteSize, CheckpointNumber};

/// A job whose checkpoints are meant.
#[derive(Debug, Args)]
pub(super) struct OfArguments {
    /// The job's name; with --data its file.
    pub(super) job: String,
    /// The folder of a job that `tidemill run` ran, and that is not running now.
    #[arg(long, value_name = "DIR", conflicts_with = "http")]
    pub(super) data: Option<PathBuf>,
    /// With --data: a value of the job to replace, as it was when the job ran.
    #[arg(long, value_name = "KEY=VALUE", requires = "data")]
    set: Vec<String>,
    #[command(flatten)]
    pub(super) node: NodeArguments,
}

impl OfArguments {
    /// The job's file.
    pub(super) fn file(&self) -> JobArguments {
        JobArguments { file: PathBuf::from(&self.job), set: self.set.clone() }
    }

    /// The path of a job that a node is asked about; or the exit code, once it was said that it can
    /// have none of that name.
    pub(super) fn path_on_node(&self) -> Result<String, u8> {
        let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
        if self.job.chars().all(is_name) {
            return Ok(job_path(&self.job));
        }
        let message = format!(
            "no job on a node has the name `{}`: with the job's file say its folder too, --data DIR",
            self.job
        );
        Err(self.node.wrong(message, REFUSED))
    }

    /// The job of a folder; or the exit code, once the error was shown.
    pub(super) fn job_in(&self, data: &Path) -> Result<Descriptor, u8> {
        let descriptor = load::load(&self.file()).map_err(|refused| {
            load::show_refusal(&refused, self.node.json);
            REFUSED
        })?;
        // Nothing is made in a folder that is not one of a job.
        if !tidemill_flow::has_ledger(&*World::real().disk, data) {
            let data = data.display();
            let message = format!("{data}: no job with a ledger or checkpoints ran there");
            return Err(self.node.wrong(message, REFUSED));
        }
        Ok(descriptor)
    }
}

/// Reads the number of a checkpoint, from 1.
pub(super) fn checkpoint_number() -> impl TypedValueParser<Value = CheckpointNumber> {
    clap::value_parser!(u64).range(1..).map(CheckpointNumber)
}

/// One checkpoint of a job.
#[derive(Debug, Args)]
pub(super) struct OneArguments {
    #[command(flatten)]
    of: OfArguments,
    /// The checkpoint's number, as `list` shows it.
    #[arg(value_name = "NUMBER", value_parser = checkpoint_number())]
    number: CheckpointNumber,
}

#[derive(Debug, Subcommand)]
pub(super) enum CheckpointCommand {
    /// Lists the complete checkpoints of a job.
    List(OfArguments),
    /// Makes a checkpoint now, and keeps it until it is deleted; of a job that does not run, keeps
    /// the newest.
    Create {
        #[command(flatten)]
        of: OfArguments,
        /// A name for it.
        #[arg(long, default_value = "")]
        name: String,
    },
    /// Shows the content of a checkpoint: positions of sources, states of stages.
    Inspect(OneArguments),
    /// Starts a job that is not running from a checkpoint; a job that was changed too, if the saved
    /// states fit it.
    Restore {
        /// The job's name.
        job: String,
        /// The checkpoint's number, as `list` shows it.
        #[arg(value_name = "NUMBER", value_parser = checkpoint_number())]
        number: CheckpointNumber,
        /// Begins anew with the saved state: sinks get the rows after it, whatever they hold. A
        /// checkpoint from before the job last began anew can only be restored so.
        #[arg(long)]
        anew: bool,
        /// The changed job. Without it the job is as it was submitted.
        #[arg(long, value_name = "JOB.yaml")]
        file: Option<PathBuf>,
        /// With --file: a value of the job to replace.
        #[arg(long, value_name = "KEY=VALUE", requires = "file")]
        set: Vec<String>,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Deletes a checkpoint that is kept.
    Delete(OneArguments),
}

pub(super) fn run(command: &CheckpointCommand) -> u8 {
    match command {
        CheckpointCommand::List(of) => on(
            of,
            ("GET", ""),
            |it| Ok(json!({ "checkpoints": infos(it), "damaged": damaged(it) })),
            list,
        ),
        CheckpointCommand::Create { of, name } => {
            let tail = format!("?name={}", super::node::escaped(name));
            on(of, ("POST", &tail), |it| Ok(json!(it.keep_newest(name)?)), created)
        }
        CheckpointCommand::Inspect(OneArguments { of, number }) => {
            on(of, ("GET", &format!("/{number}")), |it| view(it, *number), inspect)
        }
        CheckpointCommand::Delete(OneArguments { of, number }) => {
            let delete = |checkpoints: &mut Checkpoints| {
                checkpoints.delete(*number)?;
                Ok(json!({ "number": number }))
            };
            let show = |it: &Value| format!("checkpoint {} is not kept any more\n", it["number"]);
            on(of, ("DELETE", &format!("/{number}")), delete, show)
        }
        CheckpointCommand::Restore { job, number, anew, file, set, node } => {
            restore(job, (*number, *anew), file.as_ref().map(|file| (file, set)), node)
        }
    }
}

/// Asks a node, or does it to the checkpoints in a folder.
fn on(
    of: &OfArguments,
    (method, tail): (&str, &str),
    here: impl FnOnce(&mut Checkpoints) -> Result<Value, CheckpointError>,
    show: impl FnOnce(&Value) -> String,
) -> u8 {
    let Some(data) = &of.data else {
        let path = match of.path_on_node() {
            Ok(path) => format!("{path}/checkpoints{tail}"),
            Err(code) => return code,
        };
        return answer(&of.node, ask(&of.node, method, &path, None), show);
    };
    let descriptor = match of.job_in(data) {
        Ok(descriptor) => descriptor,
        Err(code) => return code,
    };
    let done = stored_checkpoints(&descriptor.spec, data, &World::real());
    let done = done.and_then(|checkpoints| match checkpoints {
        Some(mut checkpoints) => here(&mut checkpoints).map(Some),
        None => Ok(None),
    });
    match done {
        Ok(Some(document)) if of.node.json => print_all(&format!("{document}\n")),
        Ok(Some(document)) => print_all(&show(&document)),
        Ok(None) => {
            let message = format!("{}: {}", descriptor.file, tidemill_flow::AskError::None);
            of.node.wrong(message, REFUSED)
        }
        Err(error @ (CheckpointError::Backend(_) | CheckpointError::Saved { .. })) => {
            of.node.wrong(error, FAILED)
        }
        Err(error) => of.node.wrong(error, REFUSED),
    }
}

fn infos(checkpoints: &Checkpoints) -> Vec<Value> {
    checkpoints.list().into_iter().map(|(info, _)| json!(info)).collect()
}

fn damaged(checkpoints: &Checkpoints) -> Vec<Value> {
    let one = |(number, error): (CheckpointNumber, &CheckpointError)| json!({ "number": number, "error": error.to_string() });
    checkpoints.damaged().map(one).collect()
}

fn view(checkpoints: &Checkpoints, number: CheckpointNumber) -> Result<Value, CheckpointError> {
    let found = checkpoints.list().into_iter().find(|(info, _)| info.number == number);
    let (info, manifest) = found.ok_or(CheckpointError::Unknown(number))?;
    Ok(json!(CheckpointView::new(info, &manifest)))
}

fn restore(
    job: &str,
    (number, anew): (CheckpointNumber, bool),
    changed: Option<(&PathBuf, &Vec<String>)>,
    node: &NodeArguments,
) -> u8 {
    let body = match changed {
        None => None,
        Some((file, set)) => {
            let arguments = JobArguments { file: file.clone(), set: set.clone() };
            match load::load(&arguments) {
                Ok(descriptor) => match submission(&arguments, &descriptor, true) {
                    Ok(body) => Some(body),
                    Err(message) => return node.wrong(message, REFUSED),
                },
                Err(refused) => {
                    load::show_refusal(&refused, node.json);
                    return REFUSED;
                }
            }
        }
    };
    let query = if anew { "?anew=true" } else { "" };
    let path = format!("{}/checkpoints/{number}/restore{query}", job_path(job));
    let does = if anew { "begins anew with" } else { "goes on from" };
    let show = |it: &Value| format!("job {} {does} checkpoint {number}\n", word(&it["name"]));
    let asked = ask(node, "POST", &path, body.as_ref());
    if let Ok((200..=299, started)) = &asked {
        show_warnings(started);
    }
    answer(node, asked, show)
}

fn size(bytes: &Value) -> String {
    ByteSize(bytes.as_u64().unwrap_or(0)).to_string()
}

/// A time in microseconds since 1970; nothing if it is beyond all times.
fn moment(us: &Value) -> String {
    let time = us.as_i64().and_then(|us| Timestamp::from_microsecond(us).ok());
    time.map_or_else(String::new, |time| format!("{time:.3}"))
}

fn list(document: &Value) -> String {
    let all = |kind: &str| document[kind].as_array().map_or(&[][..], Vec::as_slice);
    let (checkpoints, damaged) = (all("checkpoints"), all("damaged"));
    let damaged = damaged.iter().map(|it| format!("damaged: {}\n", word(&it["error"])));
    let damaged = damaged.collect::<String>();
    if checkpoints.is_empty() {
        return format!("the job has no complete checkpoint yet\n{damaged}");
    }
    let rows = checkpoints.iter().map(|it| {
        let kept = if it["kept"].is_null() { "" } else { "kept" };
        let newest = if it["newest"] == true { "newest" } else { "" };
        let state = [newest, kept].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>();
        vec![
            word(&it["number"]),
            word(&it["kept"]),
            state.join(", "),
            word(&it["cycle"]),
            moment(&it["made_us"]),
            size(&it["bytes"]),
        ]
    });
    let head = ["checkpoint", "name", "", "cycle", "made", "size"];
    let numeric = [true, false, false, true, false, true];
    format!("{}\n{damaged}", grid(&head, &numeric, &rows.collect::<Vec<_>>()))
}

fn created(it: &Value) -> String {
    let (number, cycle, bytes) = (word(&it["number"]), word(&it["cycle"]), size(&it["bytes"]));
    format!("checkpoint {number} of cycle {cycle} is kept: {bytes}\n")
}

fn inspect(it: &Value) -> String {
    let kept = match &it["kept"] {
        Value::String(name) if name.is_empty() => "; kept".to_owned(),
        Value::String(name) => format!("; kept as {name}"),
        _ => String::new(),
    };
    let mut out = format!(
        "checkpoint {} of cycle {}, made {}: {}{kept}\n",
        word(&it["number"]),
        word(&it["cycle"]),
        moment(&it["made_us"]),
        size(&it["bytes"]),
    );
    if it["coordinated"] == false {
        out.push_str("each slice was saved by itself, as of a cycle of its own up to that one\n");
    }
    let none = Vec::new();
    let parts = |kind: &str| it[kind].as_array().unwrap_or(&none).clone();
    let sources = parts("sources").into_iter().map(|it| {
        let ended = if it["ended"] == true { "ended" } else { "" };
        vec![
            word(&it["name"]),
            word(&it["slice"]),
            word(&it["position"]),
            moment(&it["watermark"]),
            ended.to_owned(),
        ]
    });
    let head = ["source", "slice", "position", "watermark", ""];
    let numeric = [false, true, true, false, false];
    out.push_str(&format!("{}\n", grid(&head, &numeric, &sources.collect::<Vec<_>>())));
    let stages = parts("stages").into_iter().map(|it| {
        vec![
            word(&it["name"]),
            word(&it["slices"]),
            size(&it["bytes"]),
            word(&it["runs"]),
            moment(&it["watermark"]),
            word(&it["does"]),
        ]
    });
    let stages: Vec<_> = stages.collect();
    if !stages.is_empty() {
        let head = ["stage", "slices", "size", "runs", "watermark", "does"];
        let numeric = [false, true, true, true, false, false];
        out.push_str(&format!("{}\n", grid(&head, &numeric, &stages)));
    }
    let sinks: Vec<_> =
        parts("sinks").iter().map(|it| vec![word(&it["name"]), word(&it["last"])]).collect();
    out.push_str(&format!("{}\n", grid(&["sink", "last cycle with rows"], &[false, true], &sinks)));
    out
}
