//! Making, listing, showing, changing and deleting streams.

use super::{
    DONE, NodeArguments, REFUSED, admin_failed, failed, print_all, settings::SettingArguments,
    wrong,
};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use tidemill::table::grid;
use tidemill_client::{
    ErrorCode,
    admin::{NewStream, Setting, SettingSource, StreamDescription},
};
use tidemill_env::World;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CreateArguments {
    /// The stream's name: 1 to 249 of a-z A-Z 0-9 . _ -, but not `.` or `..`.
    name: String,
    /// Number of streamlets (default: that of the node).
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(i32).range(1..))]
    streamlets: Option<i32>,
    /// Number of nodes that keep each streamlet (default: that of the node).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replicas: Option<i16>,
    #[command(flatten)]
    settings: SettingArguments,
    /// A stream of this name that is there already is as good; it stays as it is.
    #[arg(long)]
    if_not_exists: bool,
    #[command(flatten)]
    node: NodeArguments,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ListArguments {
    /// Also streams in which the cluster keeps something of its own.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    node: NodeArguments,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DescribeArguments {
    /// The stream's name.
    name: String,
    /// Also settings that nobody has set.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    node: NodeArguments,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct AlterArguments {
    /// The stream's name.
    name: String,
    /// Adds streamlets, so that there are as many. Keys may go to other streamlets then.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(i32).range(1..))]
    streamlets: Option<i32>,
    #[command(flatten)]
    settings: SettingArguments,
    /// A setting to take away, so that the node's counts again; may be given several times.
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    #[command(flatten)]
    node: NodeArguments,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DeleteArguments {
    /// The stream's name.
    name: String,
    /// Does not ask.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// Says that something was done.
fn done(node: &NodeArguments, action: &str, name: &str) -> u8 {
    if node.json {
        print_all(&format!("{}\n", json!({ "stream": name, "done": action })))
    } else {
        print_all(&format!("{action} stream {name}\n"))
    }
}

pub(super) fn create(arguments: &CreateArguments) -> u8 {
    let new = NewStream {
        name: arguments.name.clone(),
        streamlets: arguments.streamlets,
        replicas: arguments.replicas,
        settings: arguments.settings.by_name(),
    };
    let world = World::real();
    match arguments.node.client(&world).admin().create(&new) {
        Ok(()) => done(&arguments.node, "created", &arguments.name),
        Err(error)
            if arguments.if_not_exists && error.code() == Some(ErrorCode::TopicAlreadyExists) =>
        {
            done(&arguments.node, "kept", &arguments.name)
        }
        Err(error) => admin_failed(arguments.node.told(), &error),
    }
}

pub(super) fn list(arguments: &ListArguments) -> u8 {
    let world = World::real();
    let mut streams = match arguments.node.client(&world).admin().list() {
        Ok(streams) => streams,
        Err(error) => return admin_failed(arguments.node.told(), &error),
    };
    streams.retain(|it| arguments.all || !it.internal);
    if arguments.node.json {
        let rows = streams.iter().map(
            |it| json!({ "name": it.name, "streamlets": it.streamlets, "internal": it.internal }),
        );
        return print_all(&format!("{}\n", Value::Array(rows.collect())));
    }
    if streams.is_empty() {
        return print_all("there is no stream\n");
    }
    let rows: Vec<Vec<String>> =
        streams.iter().map(|it| vec![it.name.clone(), it.streamlets.to_string()]).collect();
    print_all(&format!("{}\n", grid(&["stream", "streamlets"], &[false, true], &rows)))
}

pub(super) fn describe(arguments: &DescribeArguments) -> u8 {
    let world = World::real();
    let mut stream = match arguments.node.client(&world).admin().describe(&arguments.name) {
        Ok(stream) => stream,
        Err(error) => return admin_failed(arguments.node.told(), &error),
    };
    stream.settings.retain(|it| arguments.all || it.source == SettingSource::Stream);
    let text = if arguments.node.json { object(&stream).to_string() } else { text(&stream) };
    print_all(&format!("{text}\n"))
}

fn source(setting: &Setting) -> &'static str {
    match setting.source {
        SettingSource::Stream => "stream",
        SettingSource::Node => "node",
        SettingSource::Default => "default",
        SettingSource::Unknown => "unknown",
    }
}

fn object(stream: &StreamDescription) -> Value {
    let streamlets = stream.streamlets.iter().map(|it| {
        json!({
            "streamlet": it.index,
            "start": it.start,
            "end": it.end,
            "leader": it.leader,
            "replicas": it.replicas,
            "in_sync": it.in_sync,
        })
    });
    let settings = stream.settings.iter().map(|it| {
        json!({
            "name": it.name,
            "value": it.value,
            "source": source(it),
            "read_only": it.read_only,
        })
    });
    json!({
        "name": stream.name,
        "id": stream.id,
        "internal": stream.internal,
        "streamlets": streamlets.collect::<Vec<_>>(),
        "settings": settings.collect::<Vec<_>>(),
    })
}

fn text(stream: &StreamDescription) -> String {
    let or_none = |number: Option<i64>| number.map_or("-".to_owned(), |it| it.to_string());
    let rows: Vec<Vec<String>> = stream
        .streamlets
        .iter()
        .map(|it| {
            let records = it.start.zip(it.end).map(|(start, end)| end.saturating_sub(start));
            vec![
                it.index.to_string(),
                or_none(it.start),
                or_none(it.end),
                or_none(records),
                it.leader.map_or("none".to_owned(), |it| it.to_string()),
            ]
        })
        .collect();
    let names = ["streamlet", "start", "end", "offsets", "leader"];
    let mut text = format!("stream {}, id {}\n", stream.name, stream.id);
    text += &grid(&names, &[true; 5], &rows);
    if !stream.settings.is_empty() {
        let rows: Vec<Vec<String>> = stream
            .settings
            .iter()
            .map(|it| {
                let value = it.value.clone().unwrap_or_else(|| "-".to_owned());
                vec![it.name.clone(), value, source(it).to_owned()]
            })
            .collect();
        text += "\n";
        text += &grid(&["setting", "value", "set for"], &[false; 3], &rows);
    }
    text
}

pub(super) fn alter(arguments: &AlterArguments) -> u8 {
    let set = arguments.settings.by_name().into_iter().map(|(name, value)| (name, Some(value)));
    let unset = arguments.unset.iter().map(|name| (name.clone(), None));
    let changes: Vec<(String, Option<String>)> = set.chain(unset).collect();
    if changes.is_empty() && arguments.streamlets.is_none() {
        let error = "nothing to change: say --streamlets, --unset, or a setting; see `tidemill \
                     stream alter --help`";
        return wrong(arguments.node.told(), error, None, REFUSED);
    }
    let world = World::real();
    let admin = arguments.node.client(&world).admin();
    // Settings first: they are all changed or none is, and streamlets cannot be taken back.
    if !changes.is_empty()
        && let Err(error) = admin.alter(&arguments.name, &changes)
    {
        return admin_failed(arguments.node.told(), &error);
    }
    if let Some(total) = arguments.streamlets
        && let Err(error) = admin.add_streamlets(&arguments.name, total)
    {
        if !changes.is_empty() {
            let error = format!("the settings were changed; streamlets were not added: {error}");
            return failed(arguments.node.told(), &error, None);
        }
        return admin_failed(arguments.node.told(), &error);
    }
    done(&arguments.node, "changed", &arguments.name)
}

pub(super) fn delete(arguments: &DeleteArguments) -> u8 {
    if !arguments.yes {
        if !std::io::stdin().is_terminal() {
            let error = format!("nobody to ask: say --yes to delete stream `{}`", arguments.name);
            return wrong(arguments.node.told(), &error, None, REFUSED);
        }
        match confirmed(&arguments.name) {
            Ok(true) => {}
            Ok(false) => {
                say!("nothing was deleted");
                return DONE;
            }
            Err(error) => {
                return failed(
                    arguments.node.told(),
                    &format!("the answer cannot be read: {error}"),
                    None,
                );
            }
        }
    }
    let world = World::real();
    match arguments.node.client(&world).admin().delete(&arguments.name) {
        Ok(()) => done(&arguments.node, "deleted", &arguments.name),
        Err(error) => admin_failed(arguments.node.told(), &error),
    }
}

/// Asks on the terminal.
fn confirmed(name: &str) -> std::io::Result<bool> {
    say_on!("delete stream `{name}` and all its records? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
