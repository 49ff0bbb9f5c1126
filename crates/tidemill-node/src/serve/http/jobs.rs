//! Jobs over HTTP: submitted, listed, looked at, cancelled, given other threads.

use super::{
    append::blocking,
    body,
    document::{DocumentKind, read_document},
    parameters::Parameters,
    path::PathNames,
    problem::{Problem, json},
    state::HttpState,
};
use crate::{
    diagnostic::Diagnostic,
    jobs::{Jobs, JobsError, Submission},
};
use axum::{
    body::Body,
    extract::State as Shared,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json as value_of};
use std::{path::PathBuf, sync::Arc};
use tidemill_checkpoints::CheckpointError;
use tidemill_env::has_no_room;
use tidemill_flow::AskError;
use tidemill_types::CheckpointNumber;

pub(super) const RESCALE_PARAMETERS: &[&str] = &["threads"];
pub(super) const KEEP_PARAMETERS: &[&str] = &["name"];
pub(super) const RESTORE_PARAMETERS: &[&str] = &["anew"];

/// The body of a submission.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubmitRequest {
    /// The job file's text.
    job: String,
    /// Its name, for messages.
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    set: Vec<String>,
    /// An absolute path of the node's machine.
    #[serde(default)]
    base_dir: Option<PathBuf>,
    #[serde(default)]
    resume: bool,
}

const SUBMISSION: DocumentKind = DocumentKind {
    name: "a submission of a job",
    form: "`{\"job\": TEXT}` with the text of the job file as a JSON string, which \
           `tidemill job submit FILE` sends",
};

fn view(view: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(view).map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("it cannot be shown: {error}"))
    })
}

fn diagnostic(it: &Diagnostic) -> Value {
    value_of!({
        "file": it.file,
        "line": it.place.map(|place| place.line),
        "column": it.place.map(|place| place.column),
        "path": it.problem.path.join("."),
        "message": it.problem.message,
        "expected": it.problem.expected,
        "nearest": it.problem.nearest,
    })
}

impl From<JobsError> for Problem {
    fn from(error: JobsError) -> Self {
        let error = match error {
            JobsError::State(error) => return error.into(),
            other => other,
        };
        let status = match &error {
            JobsError::Refused(_) | JobsError::Start(_) | JobsError::Away(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            JobsError::Unknown(_)
            | JobsError::Checkpoint(AskError::Checkpoint(CheckpointError::Unknown(_))) => {
                StatusCode::NOT_FOUND
            }
            JobsError::Another { .. }
            | JobsError::Checkpoint(AskError::Checkpoint(CheckpointError::Name)) => {
                StatusCode::BAD_REQUEST
            }
            JobsError::Checkpoint(AskError::Checkpoint(
                CheckpointError::Backend(_) | CheckpointError::Saved { .. },
            )) => StatusCode::INTERNAL_SERVER_ERROR,
            JobsError::Stopping | JobsError::Checkpoint(AskError::Stalled { .. }) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            JobsError::Running(_)
            | JobsError::Waiting(_)
            | JobsError::Damaged { .. }
            | JobsError::NotEnded(_)
            | JobsError::Ended(_)
            | JobsError::Rescale(_)
            | JobsError::Checkpoint(_)
            | JobsError::TooMany => StatusCode::CONFLICT,
            JobsError::Disk { error, .. } | JobsError::NotNoted { error, .. }
                if has_no_room(error) =>
            {
                StatusCode::INSUFFICIENT_STORAGE
            }
            JobsError::State(_)
            | JobsError::Disk { .. }
            | JobsError::NotNoted { .. }
            | JobsError::Thread(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let problem = Self::new(status, error.to_string());
        match error {
            JobsError::Refused(refused) => {
                problem.with("errors", refused.0.iter().map(diagnostic).collect::<Value>())
            }
            _ => problem,
        }
    }
}

/// Does something to the jobs on a thread that may block.
async fn with<T: Send + 'static>(
    state: &Arc<HttpState>,
    work: impl FnOnce(&Arc<Jobs>) -> Result<T, JobsError> + Send + 'static,
) -> Result<T, Problem> {
    let jobs = Arc::clone(&state.jobs);
    Ok(blocking(move || work(&jobs)).await??)
}

fn submission(bytes: &[u8]) -> Result<Submission, Problem> {
    let asked: SubmitRequest = read_document(bytes, &SUBMISSION)?;
    if let Some(folder) = asked.base_dir.as_ref().filter(|it| !it.is_absolute()) {
        let why = format!(
            "`base_dir` is `{}`, and is to be an absolute path of the node's machine, such as \
             `/srv/jobs`",
            folder.display()
        );
        return Err(Problem::bad(why));
    }
    Ok(Submission {
        text: asked.job,
        file: asked.file.unwrap_or_else(|| "job".to_owned()),
        set: asked.set,
        base_dir: asked.base_dir,
        resume: asked.resume,
        from: None,
    })
}

pub(super) async fn submit(
    Shared(state): Shared<Arc<HttpState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let (bytes, _charge) = body::receive(&state, &headers, body).await?.plain(&state)?;
    let submission = submission(&bytes)?;
    let job = with(&state, move |jobs| jobs.submit(submission)).await?;
    Ok((StatusCode::CREATED, json(&view(&job)?)).into_response())
}

pub(super) async fn list(
    Shared(state): Shared<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let jobs = with(&state, |jobs| Ok(jobs.list())).await?;
    let jobs = jobs.iter().map(view).collect::<Result<Vec<_>, _>>()?;
    Ok(json(&value_of!({ "jobs": jobs })).into_response())
}

pub(super) async fn describe(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let job = with(&state, move |jobs| jobs.get(&name)).await?;
    Ok(json(&view(&job)?).into_response())
}

pub(super) async fn cancel(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let job = with(&state, move |jobs| jobs.cancel(&name)).await?;
    Ok((StatusCode::ACCEPTED, json(&view(&job)?)).into_response())
}

pub(super) async fn delete(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let deleted = value_of!({ "name": name });
    with(&state, move |jobs| jobs.delete(&name)).await?;
    Ok(json(&deleted).into_response())
}

pub(super) async fn rescale(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let parameters = Parameters::of(&uri, RESCALE_PARAMETERS)?;
    let threads = parameters.value("threads", "a number of worker threads")?;
    let threads =
        threads.ok_or_else(|| Problem::bad("say how many threads, such as `?threads=4`"))?;
    let job = with(&state, move |jobs| jobs.rescale(&name, threads)).await?;
    Ok(json(&view(&job)?).into_response())
}

pub(super) async fn checkpoints(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let asked =
        move |jobs: &Arc<Jobs>| Ok((jobs.checkpoints(&name)?, jobs.damaged_checkpoints(&name)?));
    let (all, damaged) = with(&state, asked).await?;
    let damaged =
        damaged.iter().map(|(number, error)| value_of!({ "number": number, "error": error }));
    let damaged: Vec<_> = damaged.collect();
    Ok(json(&value_of!({ "checkpoints": view(&all)?, "damaged": damaged })).into_response())
}

pub(super) async fn checkpoint(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames((name, number)): PathNames<(String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let number = checkpoint_number(&number)?;
    let found = with(&state, move |jobs| jobs.checkpoint(&name, number)).await?;
    Ok(json(&view(&found)?).into_response())
}

pub(super) async fn keep_checkpoint(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let parameters = Parameters::of(&uri, KEEP_PARAMETERS)?;
    let label = parameters.text("name").unwrap_or_default().to_owned();
    let kept = with(&state, move |jobs| jobs.keep_checkpoint(&name, &label)).await?;
    Ok((StatusCode::CREATED, json(&view(&kept)?)).into_response())
}

pub(super) async fn delete_checkpoint(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames((name, number)): PathNames<(String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let number = checkpoint_number(&number)?;
    with(&state, move |jobs| jobs.delete_checkpoint(&name, number)).await?;
    Ok(json(&value_of!({ "number": number })).into_response())
}

/// The body is a changed job, or nothing.
pub(super) async fn restore(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames((name, number)): PathNames<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let parameters = Parameters::of(&uri, RESTORE_PARAMETERS)?;
    let anew = parameters.value("anew", "`true` or `false`")?.unwrap_or(false);
    let number = checkpoint_number(&number)?;
    let (bytes, _charge) = body::receive(&state, &headers, body).await?.plain(&state)?;
    let changed = if bytes.is_empty() { None } else { Some(submission(&bytes)?) };
    let job = with(&state, move |jobs| jobs.restore(&name, number, anew, changed)).await?;
    Ok((StatusCode::CREATED, json(&view(&job)?)).into_response())
}

fn checkpoint_number(text: &str) -> Result<CheckpointNumber, Problem> {
    text.parse().map(CheckpointNumber).map_err(|_| {
        let shown: String = text.chars().take(100).collect();
        Problem::bad(format!(
            "`{shown}` is no checkpoint: one is named by its number, from 1; \
             `GET /jobs/NAME/checkpoints` lists them"
        ))
    })
}
