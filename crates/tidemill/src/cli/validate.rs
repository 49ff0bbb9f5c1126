//! `tidemill validate`: checks a job and shows how it would run.

use super::{JobArguments, REFUSED, load, print_all};
use arrow_schema::{FieldRef, SchemaRef};
use serde_json::{Value, json};
use std::fmt::Write;
use tidemill_env::World;
use tidemill_flow::{GuessedColumn, JobGraph, Partition, Stage, StageKind, TIME_COLUMN};
use tidemill_node::Registry;
use tidemill_node::plan::{PlanOptions, Validated, validate as look_at};
use tidemill_types::StageIx;

#[derive(Debug, clap::Args)]
pub(super) struct ValidateArguments {
    #[command(flatten)]
    job: JobArguments,
    /// The result as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn validate(arguments: &ValidateArguments) -> u8 {
    let (base_dir, job_file) = (load::base_dir(&arguments.job), Some(arguments.job.file.clone()));
    let options = PlanOptions { base_dir, job_file, ..PlanOptions::default() };
    let looked = load::load(&arguments.job).and_then(|descriptor| {
        let looked = look_at(&descriptor, &options, &World::real(), &Registry::default())?;
        load::advise(&descriptor);
        load::warn(&descriptor.spec.name, &looked.planned.warnings);
        Ok(looked)
    });
    match looked {
        Ok(Validated { planned, unchecked }) if arguments.json => {
            let (stages, name) = (stages(&planned.graph), &planned.graph.name);
            let valid = json!({
                "type": "valid",
                "job": name,
                "stages": stages,
                "unchecked": unchecked,
            });
            print_all(&format!("{valid}\n"))
        }
        Ok(Validated { planned, unchecked }) => {
            let mut text = text(&arguments.job.file.display().to_string(), &planned.graph);
            if let Some(unchecked) = unchecked {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "not checked, for want of a node: {unchecked}");
            }
            print_all(&text)
        }
        Err(refused) => {
            load::show_refusal(&refused, arguments.json);
            REFUSED
        }
    }
}

/// Columns of a stage's results. A stage that runs several of the job has them with their names.
fn columns(kind: &StageKind) -> Vec<(String, String)> {
    let columns = |of: &str, schema: &SchemaRef| {
        let fields = schema.fields().iter().filter(|field| field.name() != TIME_COLUMN);
        let column = |it: &FieldRef| (format!("{of}{}", it.name()), it.data_type().to_string());
        fields.map(column).collect::<Vec<_>>()
    };
    match kind {
        StageKind::Source { factory, .. } => columns("", &factory.schema()),
        StageKind::Operator { factory, .. } => {
            let outputs = factory.outputs();
            let results = (0..outputs.len()).filter(|output| !factory.is_side(*output));
            let of = |output| match factory.member_of(output) {
                Some(member) => columns(&format!("{member}."), &outputs[output]),
                None => columns("", &outputs[output]),
            };
            results.flat_map(of).collect()
        }
        StageKind::Sink { .. } => Vec::new(),
    }
}

/// Columns of a source whose types the job does not name.
fn guessed(kind: &StageKind) -> Vec<GuessedColumn> {
    match kind {
        StageKind::Source { factory, .. } => factory.guessed(),
        StageKind::Operator { .. } | StageKind::Sink { .. } => Vec::new(),
    }
}

/// Says which columns were guessed, and which of them keep numbers as text.
fn guessed_in_words(guessed: &[GuessedColumn]) -> String {
    if guessed.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = guessed.iter().map(|it| it.name.as_str()).collect();
    let mut text = format!("\n         guessed from the first records: {}", names.join(", "));
    for column in guessed {
        if let Some(value) = &column.kept_as_text {
            let value: String = value.chars().take(40).collect();
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n         `{}` is text: a number would not give back `{value}` as it is written",
                column.name
            );
        }
    }
    text
}

/// The name of an output: its stage, marked if its rows are late ones.
fn output_name(stage: &Stage, output: usize) -> String {
    let StageKind::Operator { factory, .. } = &stage.kind else { return stage.name.clone() };
    let name = factory.member_of(output).unwrap_or_else(|| stage.name.clone());
    if factory.is_side(output) { format!("{name} (late)") } else { name }
}

fn kind_of(kind: &StageKind) -> &'static str {
    match kind {
        StageKind::Source { preload: true, .. } => "table",
        StageKind::Source { .. } => "source",
        StageKind::Operator { .. } => "stage",
        StageKind::Sink { .. } => "sink",
    }
}

/// The inputs of a stage: names and partitions.
fn reads(graph: &JobGraph, id: usize) -> Vec<String> {
    let links = graph.links.iter().filter(|link| link.to == StageIx::at(id));
    links
        .map(|link| {
            let name = output_name(&graph[link.from], link.output);
            let how = match &link.partition {
                Partition::Key(_) => " by key",
                Partition::One | Partition::Local => "",
                Partition::All => " to all",
                Partition::Random => " at random",
            };
            format!("{name}{how}")
        })
        .collect()
}

fn stages(graph: &JobGraph) -> Vec<Value> {
    let value = |(id, stage): (usize, &Stage)| {
        let columns: serde_json::Map<String, Value> =
            columns(&stage.kind).into_iter().map(|(name, kind)| (name, kind.into())).collect();
        let mut shown = json!({
            "name": stage.name,
            "kind": kind_of(&stage.kind),
            "reads": reads(graph, id),
            "columns": columns,
        });
        let guessed = guessed(&stage.kind);
        if !guessed.is_empty() {
            let of_column =
                |it: &GuessedColumn| json!({ "column": it.name, "kept_as_text": it.kept_as_text });
            shown["guessed"] = guessed.iter().map(of_column).collect();
        }
        shown
    };
    graph.stages.iter().enumerate().map(value).collect()
}

fn text(file: &str, graph: &JobGraph) -> String {
    let mut text = format!("{file}: job `{}` can run, on {} threads\n", graph.name, graph.workers);
    for (id, stage) in graph.stages.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "  {:<7}{}", kind_of(&stage.kind), stage.name);
        if let StageKind::Operator { slices: slices @ 1.., .. } = stage.kind {
            let _ = write!(text, " ({slices} {})", if slices == 1 { "slice" } else { "slices" });
        }
        let reads = reads(graph, id);
        if !reads.is_empty() {
            let _ = write!(text, " <- {}", reads.join(", "));
        }
        let columns: Vec<String> =
            columns(&stage.kind).into_iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        let columns = if columns.is_empty() {
            String::new()
        } else {
            format!("\n         {}", columns.join(", "))
        };
        let _ = writeln!(text, "{columns}{}", guessed_in_words(&guessed(&stage.kind)));
    }
    text
}
