//! `tidemill stream …`: streams of a node, over the Kafka protocol; so also of an Apache Kafka.

mod consume;
mod lines;
mod manage;
mod produce;
mod rates;
mod render;
mod settings;
mod start;

#[cfg(test)]
mod tests;

use super::{DONE, FAILED, REFUSED, STOPPED, print_all, signals::StopFlag};
use clap::{Args, Subcommand};
use serde_json::json;
use std::time::Duration;
use tidemill_client::{AdminError, CallError, Client, ClientOptions, ErrorCode};
use tidemill_env::World;

/// Longest time for a node to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The node that is asked.
#[derive(Debug, Args)]
struct NodeArguments {
    /// Where nodes listen for Kafka clients; several with commas between them.
    #[arg(long, value_name = "ADDR", env = "TIDEMILL_BOOTSTRAP", default_value = "127.0.0.1:9092")]
    bootstrap: String,
    /// Answers as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum StreamCommand {
    /// Makes a stream.
    Create(manage::CreateArguments),
    /// Lists streams.
    List(manage::ListArguments),
    /// Shows one stream: its streamlets with their offsets, and its settings.
    Describe(manage::DescribeArguments),
    /// Changes settings of a stream, or adds streamlets.
    Alter(manage::AlterArguments),
    /// Deletes a stream and all its records.
    Delete(manage::DeleteArguments),
    /// Sends lines of standard input to a stream, each as a record.
    Produce(produce::ProduceArguments),
    /// Writes records of a stream to standard output.
    Consume(consume::ConsumeArguments),
}

pub(super) fn run(command: &StreamCommand) -> u8 {
    match command {
        StreamCommand::Create(arguments) => manage::create(arguments),
        StreamCommand::List(arguments) => manage::list(arguments),
        StreamCommand::Describe(arguments) => manage::describe(arguments),
        StreamCommand::Alter(arguments) => manage::alter(arguments),
        StreamCommand::Delete(arguments) => manage::delete(arguments),
        StreamCommand::Produce(arguments) => produce::produce(arguments),
        StreamCommand::Consume(arguments) => consume::consume(arguments),
    }
}

impl NodeArguments {
    /// Shows the error of a command that answers.
    fn told(&self) -> ErrorForm {
        if self.json { ErrorForm::Answer } else { ErrorForm::Text }
    }

    /// Shows the error of a command that reads or writes records.
    fn told_beside(&self) -> ErrorForm {
        if self.json { ErrorForm::Beside } else { ErrorForm::Text }
    }

    fn client(&self, world: &World) -> Client {
        let options = ClientOptions {
            connect_timeout: CONNECT_TIMEOUT,
            client_id: "tidemill-cli".to_owned(),
            ..ClientOptions::at(&self.bootstrap)
        };
        Client::new(world, options)
    }
}

/// The form in which an error is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorForm {
    /// On standard error, for a person.
    Text,
    /// On standard output, where the answer would be.
    Answer,
    /// On standard error, beside the records or behind the summary.
    Beside,
}

/// Shows an error, and a way out of it.
fn wrong(
    told: ErrorForm,
    error: &(impl std::fmt::Display + ?Sized),
    hint: Option<&str>,
    code: u8,
) -> u8 {
    let object = || json!({ "error": error.to_string(), "hint": hint });
    match told {
        ErrorForm::Text => {
            say!("error: {error}");
            if let Some(hint) = hint {
                say!("hint: {hint}");
            }
        }
        ErrorForm::Answer => {
            let _shown = print_all(&format!("{}\n", object()));
        }
        ErrorForm::Beside => say!("{}", object()),
    }
    code
}

fn failed(told: ErrorForm, error: &(impl std::fmt::Display + ?Sized), hint: Option<&str>) -> u8 {
    wrong(told, error, hint, FAILED)
}

fn admin_failed(told: ErrorForm, error: &AdminError) -> u8 {
    failed(told, error, hint(error))
}

/// A way out of an error.
fn hint(error: &AdminError) -> Option<&'static str> {
    match error {
        AdminError::Call(CallError::Unreachable { .. }) => {
            Some("`tidemill serve` starts a node, `--bootstrap` says where one is")
        }
        error if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {
            Some("`tidemill stream list` shows what there is, `tidemill stream create` makes one")
        }
        _ => None,
    }
}

/// Listens to Ctrl-C.
fn stop_flag(told: ErrorForm) -> Result<StopFlag, u8> {
    let unheard = |error| format!("signals cannot be heard: {error}");
    StopFlag::listen().map_err(|error| failed(told, &unheard(error), None))
}
