//! A node that serves, asked over its HTTP side.

use super::{FAILED, JobArguments, REFUSED, load, print_all};
use clap::Args;
use serde_json::{Value, json};
use std::{io, path::PathBuf, time::Duration};
use tidemill_node::Descriptor;

/// Longest time for a node to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The node that is asked.
#[derive(Debug, Args)]
pub(super) struct NodeArguments {
    /// Where the node's HTTP side listens; the variable TIDEMILL_HTTP sets another default.
    // With `env` clap would take it for given on the command line, where it excludes `--data`.
    #[arg(long, value_name = "ADDR", default_value_t = default_address())]
    pub(super) http: String,
    /// Prints the answer or the error as JSON; of `state query` an object for each row.
    #[arg(long)]
    pub(super) json: bool,
}

fn default_address() -> String {
    let set = std::env::var("TIDEMILL_HTTP").ok().filter(|it| !it.is_empty());
    set.unwrap_or_else(|| "127.0.0.1:8088".to_owned())
}

/// A job's path. Names of jobs are letters, digits, `-` and `_`; anything else is escaped.
pub(super) fn job_path(name: &str) -> String {
    format!("/jobs/{}", escaped(name))
}

/// A text in a path or a query.
pub(super) fn escaped(text: &str) -> String {
    let escaped = text.bytes().map(|it| match it {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(it).to_string(),
        other => format!("%{other:02X}"),
    });
    escaped.collect()
}

/// A job file as a node takes it.
///
/// # Errors
/// The folder that its paths begin in cannot be told in JSON.
pub(super) fn submission(
    arguments: &JobArguments,
    descriptor: &Descriptor,
    resume: bool,
) -> Result<Value, String> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let folder = here.join(load::base_dir(arguments));
    let base_dir = folder.to_str().ok_or_else(|| {
        format!(
            "the folder {} has a name that is not UTF-8, and no node can be told of it: give it \
             another, or move the job file",
            folder.display()
        )
    })?;
    Ok(json!({
        "job": descriptor.text(),
        "file": arguments.file.display().to_string(),
        "set": arguments.set,
        "base_dir": base_dir,
        "resume": resume,
    }))
}

impl NodeArguments {
    /// Shows an error: for a person on standard error, for a script on standard output, with the
    /// key that nodes have for it.
    pub(super) fn wrong(&self, message: impl std::fmt::Display, code: u8) -> u8 {
        if self.json {
            let _shown = print_all(&format!("{}\n", json!({ "error": message.to_string() })));
        } else {
            say!("error: {message}");
        }
        code
    }
}

/// Longest answer with rows that is read, in bytes.
const ROWS_BYTES_MAX: u64 = 1 << 30;

/// The answer of a node: its status, and a document.
pub(super) fn ask(
    node: &NodeArguments,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<(u16, Value), String> {
    let of = (method, path, "application/json");
    let (status, bytes) = request(node, of, body, ANSWER_BYTES_MAX)?;
    let document = serde_json::from_slice(&bytes)
        .map_err(|_| format!("{} answers, but it is no Tidemill node", node.http))?;
    Ok((status, document))
}

/// The answer of a node: its status, and an Arrow file, or a document if it refused.
pub(super) fn ask_bytes(
    node: &NodeArguments,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<(u16, Vec<u8>), String> {
    request(node, (method, path, "application/vnd.apache.arrow.file"), body, ROWS_BYTES_MAX)
}

fn request(
    node: &NodeArguments,
    (method, path, accept): (&str, &str, &str),
    body: Option<&Value>,
    bytes_max: u64,
) -> Result<(u16, Vec<u8>), String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .build()
        .into();
    let url = format!("http://{}{path}", node.http);
    let bytes = body.map_or_else(Vec::new, |it| it.to_string().into_bytes());
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(&url)
        .header("content-type", "application/json")
        .header("accept", accept)
        .body(bytes)
        .map_err(|error| format!("`{}` is no address: {error}", node.http))?;
    let mut response = agent.run(request).map_err(|error| match error {
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => format!(
            "no node answers at {}: start one with `tidemill serve`, or say where it is with --http",
            node.http
        ),
        other => format!("{}: {other}", node.http),
    })?;
    let status = response.status().as_u16();
    let bytes = response.body_mut().with_config().limit(bytes_max).read_to_vec();
    Ok((status, bytes.map_err(|error| format!("{}: {error}", node.http))?))
}

/// Shows an answer, or the error.
pub(super) fn answer(
    node: &NodeArguments,
    asked: Result<(u16, Value), String>,
    show: impl FnOnce(&Value) -> String,
) -> u8 {
    match asked {
        Err(message) => node.wrong(message, FAILED),
        Ok((200..=299, document)) if node.json => print_all(&format!("{document}\n")),
        Ok((200..=299, document)) => print_all(&show(&document)),
        Ok((status, document)) => {
            if node.json {
                let _shown = print_all(&format!("{document}\n"));
            } else if document["errors"].is_array() {
                // Each says where it stands in the file, and that it is an error.
                say!("{}", word(&document["error"]));
            } else {
                say!("error: {}", word(&document["error"]).trim_start_matches("error: "));
            }
            if matches!(status, 400..=422) { REFUSED } else { FAILED }
        }
    }
}

pub(super) fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
