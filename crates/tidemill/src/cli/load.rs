//! A job file from the command line: read, set, parsed; and how a refusal is shown.

use super::{JobArguments, print_all};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};
use tidemill_connectors::ForeignEncoding;
use tidemill_node::{Descriptor, Diagnostic, Problem, Refused, check, descriptor};
use tidemill_types::limits::JOB_FILE_BYTES_MAX;

/// Reads the job that the arguments name.
pub(super) fn load(arguments: &JobArguments) -> Result<Descriptor, Refused> {
    let name = arguments.file.display().to_string();
    let text = read(&arguments.file).map_err(|message| whole(&name, message))?;
    descriptor::parse_with(&text, &name, &arguments.set)
}

/// Something is wrong with a job as a whole, and not with a value of it.
pub(super) fn whole(file: &str, message: impl Into<String>) -> Refused {
    let problem = Problem::new::<String>([], message);
    Refused(vec![Diagnostic { file: file.to_owned(), place: None, line: None, problem }])
}

/// Shows the warnings about a job.
pub(super) fn advise(descriptor: &Descriptor) {
    warn(&descriptor.spec.name, check::advice(&descriptor.spec));
}

/// Shows the warnings about a job that keeps no data.
pub(super) fn advise_of_one_run(descriptor: &Descriptor) {
    warn(&descriptor.spec.name, check::advice_of_one_run(&descriptor.spec));
}

/// Shows warnings about a job on standard error.
pub(super) fn warn(job: &str, warnings: impl IntoIterator<Item = impl std::fmt::Display>) {
    for warning in warnings {
        tracing::warn!(job, "{warning}");
    }
}

/// The text of a job file. One byte more than is allowed is enough to know that a file is too long.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(JOB_FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::IsADirectory => "it is a folder: name the job file in it".to_owned(),
        _ => format!("the file cannot be read: {error}"),
    })?;
    if let Some(encoding) = ForeignEncoding::of(&bytes) {
        return Err(encoding.refusal("the job file"));
    }
    if bytes.len() as u64 > JOB_FILE_BYTES_MAX {
        return Err(format!(
            "the job file is too long, expected at most {JOB_FILE_BYTES_MAX} bytes"
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|it| **it == b'\n').count() + 1;
        format!("line {line} is not UTF-8: write the file in UTF-8, which the editor may offer")
    })
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
