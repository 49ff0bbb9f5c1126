//! Sinks of a job, and where its dead letters go.

use super::{Outlets, Planner, operators, program_calls};
use crate::diagnostic::Problem;
use crate::preview::Preview;
use arrow_schema::SchemaRef;
use std::{path::Path, sync::Arc};
use tidemill_connectors::{
    BlackholeSink, FileSink, KafkaSink, PostgresSink, StdoutSink, StreamSink,
};
use tidemill_flow::{Partition, Sink, StageKind, dead_letter, sink::why_not_resumable};
use tidemill_types::job::{DEAD_LETTER, Delivery, Format, SinkSpec};

/// The file of dead letters in the data folder, when no sink takes them.
pub(super) const DEAD_LETTER_FILE: &str = "dead-letter.ndjson";

/// Number of dead letters that are kept for the summary.
const LETTERS_SHOWN: usize = 10;

impl Planner<'_> {
    pub(super) fn sinks(&mut self) {
        for (name, sink) in &self.spec.sinks {
            if sink.from.iter().any(|from| from == DEAD_LETTER) {
                continue;
            }
            let Some(input) = self.union(&sink.from, &["sinks", name, "from"]) else { continue };
            self.sink(name, sink, &input);
        }
    }

    fn sink(&mut self, name: &str, spec: &SinkSpec, input: &Outlets) {
        match self.make_sink(name, spec, &input.schema) {
            Ok((sink, place)) => {
                let rows = self.options.preview_rows;
                let sink = if rows > 0 && spec.stdout.is_none() {
                    let preview = Preview::new(name, place, &input.schema, rows);
                    let sink = preview.sink(Some(sink));
                    self.previews.push(preview);
                    sink
                } else {
                    sink
                };
                let added = self.graph.add(name, StageKind::Sink { sink });
                self.link(input, added, 0, &Partition::One);
            }
            Err(problem) => self.problem(problem),
        }
    }

    /// A sink with which the job can go on, if it is one that does nothing twice.
    fn make_sink(
        &self,
        name: &str,
        spec: &SinkSpec,
        schema: &SchemaRef,
    ) -> Result<(Box<dyn Sink>, String), Problem> {
        let made = self.open_sink(name, spec, schema)?;
        let skips = self.spec.delivery == Delivery::AtMostOnce && self.spec.checkpoint.is_some();
        let is_lost = program_calls::ask(&["sinks", name], || why_not_resumable(&*made.0))?;
        match is_lost.filter(|_| skips) {
            Some(message) if spec.file.is_some() => {
                Err(Problem::new(["sinks", name, "file", "format"], message))
            }
            Some(message) => Err(Problem::new(["sinks", name], message)),
            None => Ok(made),
        }
    }

    /// A sink, and where it writes, for a person.
    fn open_sink(
        &self,
        name: &str,
        spec: &SinkSpec,
        schema: &SchemaRef,
    ) -> Result<(Box<dyn Sink>, String), Problem> {
        if let Some(make) = self.registry.sink(name) {
            let path = ["sinks", name];
            let made = program_calls::ask(&path, || make(schema))?;
            let sink = made.map_err(|message| Problem::new(path, message))?;
            return Ok((sink, "the program".to_owned()));
        }
        if let Some(file) = &spec.file {
            let path = self.path(&file.path);
            let sink = FileSink::new(self.world, &path, file.format, Arc::clone(schema))
                .map_err(|error| operators::sink_problem(name, "file", &error))?;
            // As it is found from here: in the file it stands as from the folder of that.
            return Ok((sink, path.display().to_string()));
        }
        if let Some(stream) = &spec.stream {
            let place = ["sinks", name, "stream"];
            let place_of = || format!("stream {}", stream.name);
            if self.streams != super::validation::StreamAccess::Opened {
                return match StreamSink::check(stream, schema) {
                    Ok(()) => Ok((Box::new(BlackholeSink::new()), place_of())),
                    Err(error) => Err(operators::sink_problem(name, "stream", &error)),
                };
            }
            let Some(streams) = &self.options.streams else { return Err(super::no_log(place)) };
            let found = streams.log().get(&stream.name);
            if stream.key.is_empty()
                && found.is_some_and(|it| tidemill_broker::has_keys(&it.spec()))
            {
                let message = format!("`{}` is compact: its records have keys", stream.name);
                return Err(Problem::new(place, message)
                    .expected("a `key`, the columns of which the newest row is kept"));
            }
            let notes = self.notes().map(|folder| folder.join(format!("sink-{name}.json")));
            let schema = Arc::clone(schema);
            let sink = StreamSink::new(self.world, streams.log(), stream, schema, notes.as_deref())
                .map_err(|error| operators::sink_problem(name, "stream", &error))?;
            return Ok((sink, place_of()));
        }
        if let Some(kafka) = &spec.kafka {
            let notes = self.notes().map(|folder| folder.join(format!("sink-{name}.json")));
            let id = format!("{}-{name}", self.spec.name);
            let sink = KafkaSink::new(self.world, kafka, &id, schema, notes.as_deref())
                .map_err(|error| operators::sink_problem(name, "kafka", &error))?;
            return Ok((sink, format!("topic {}", kafka.topic)));
        }
        if let Some(postgres) = &spec.postgres {
            let notes = self.notes().map(|folder| folder.join(format!("sink-{name}.json")));
            let of = (self.spec.name.as_str(), name);
            let sink = PostgresSink::new(self.world, postgres, of, schema, notes.as_deref())
                .map_err(|error| operators::table_problem(name, &error))?;
            return Ok((sink, format!("table {}", postgres.table)));
        }
        if let Some(stdout) = &spec.stdout {
            let sink = StdoutSink::new(stdout.format, Arc::clone(schema))
                .map_err(|error| operators::sink_problem(name, "stdout", &error))?;
            return Ok((sink, "standard output".to_owned()));
        }
        Ok((Box::new(BlackholeSink::new()), "nowhere".to_owned()))
    }

    /// Dead letters go to the sink that reads them, else to the data folder, else they are counted.
    /// The first are kept for the summary in any case.
    pub(super) fn dead_letters(&mut self) -> Preview {
        let schema = dead_letter::schema();
        let declared = self
            .spec
            .sinks
            .iter()
            .find(|(_, sink)| sink.from.iter().any(|from| from == DEAD_LETTER));
        let made = match (declared, &self.options.data) {
            (Some((name, sink)), _) => self.make_sink(name, sink, &schema).map(Some),
            (None, Some(data)) => self.letter_file(data, &schema).map(Some),
            (None, None) => Ok(None),
        };
        let (sink, place) = match made {
            Ok(Some((sink, place))) => (Some(sink), place),
            Ok(None) => (None, "nowhere".to_owned()),
            Err(problem) => {
                self.problem(problem);
                (None, String::new())
            }
        };
        let preview = Preview::new(DEAD_LETTER, place, &schema, LETTERS_SHOWN);
        self.graph.dead_letter = Some(preview.sink(sink));
        preview
    }

    fn letter_file(
        &self,
        data: &Path,
        schema: &SchemaRef,
    ) -> Result<(Box<dyn Sink>, String), Problem> {
        let path = data.join(DEAD_LETTER_FILE);
        let sink = FileSink::new(self.world, &path, Format::Json, Arc::clone(schema))
            .map_err(|error| operators::sink_problem(DEAD_LETTER, "file", &error))?;
        Ok((sink, path.display().to_string()))
    }
}
