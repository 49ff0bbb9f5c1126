//! A job file from the command line: read, set, parsed; and how a refusal is shown.

use super::{JobArguments, print_all};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};
use tidemill_node::{Descriptor, Diagnostic, Problem, Refused, check, descriptor};
use tidemill_types::limits::JOB_FILE_BYTES_MAX;

/// Reads the job that the arguments name.
pub(super) fn load(arguments: &JobArguments) -> Result<Descriptor, Refused> {
    let name = arguments.file.display().to_string();
    let text = read(&arguments.file).map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound => "there is no such file".to_owned(),
            io::ErrorKind::InvalidData => "the file is not UTF-8 text".to_owned(),
            _ => error.to_string(),
        };
        whole(&name, what)
    })?;
    descriptor::parse_with(&text, &name, &arguments.set)
}

/// Something is wrong with a job as a whole, and not with a value of it.
pub(super) fn whole(file: &str, what: impl Into<String>) -> Refused {
    let problem = Problem::new::<String>([], what);
    Refused(vec![Diagnostic { file: file.to_owned(), place: None, line: None, problem }])
}

/// Shows the warnings about a job.
pub(super) fn advise(descriptor: &Descriptor) {
    show_advice(descriptor, check::advice(&descriptor.spec));
}

/// Shows the warnings about a job that keeps no data.
pub(super) fn advise_of_one_run(descriptor: &Descriptor) {
    show_advice(descriptor, check::advice_of_one_run(&descriptor.spec));
}

fn show_advice(descriptor: &Descriptor, all: Vec<String>) {
    for advice in all {
        tracing::warn!(job = descriptor.spec.name, "{advice}");
    }
}

/// One byte more than is allowed is enough to know that a file is too long.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(JOB_FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// The folder that relative paths of a job begin in: that of its file.
pub(super) fn base_dir(arguments: &JobArguments) -> PathBuf {
    arguments.file.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Shows a refusal: for a person on standard error, for a script on standard output.
pub(super) fn show_refusal(refused: &Refused, as_json: bool) {
    if as_json {
        let _shown = print_all(&format!("{}\n", refusal_json(refused)));
    } else {
        say!("{refused}");
    }
}

fn refusal_json(refused: &Refused) -> Value {
    let errors = refused.0.iter().map(|it| {
        json!({
            "file": it.file,
            "line": it.place.map(|place| place.line),
            "column": it.place.map(|place| place.column),
            "path": it.problem.path.join("."),
            "message": it.problem.message,
            "expected": it.problem.expected,
            "nearest": it.problem.nearest,
        })
    });
    json!({ "type": "refused", "errors": errors.collect::<Vec<_>>() })
}
