//! What a program brings, guarded wherever the engine asks it for something while a job is opened or
//! runs: a panic unwinds with whose it is, and a job that is being opened is then refused.
//!
//! Records are not seen here: operators and sources are guarded where they are given them. Nor are
//! the looks of people: what is asked for them goes on as it is, or is not known.

use crate::error::StartError;
use crate::look::{StateAt, StateTable, TakeRows};
use crate::operator::{Operator, OperatorError, OperatorFactory, SliceState};
use crate::source::{Obstacle, Position, Source, SourceError, SourceFactory};
use arrow_schema::SchemaRef;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};
use tidemill_state::HashOfEntry;
use tidemill_types::{SliceId, Span};

/// Asks what a program brings for something.
///
/// # Errors
/// It panicked; with what the panic said.
pub fn asked<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| match super::unwound(&*panic) {
        (message, true) => format!("it panicked: {message}"),
        (message, false) => message,
    })
}

/// A panic of a source or a stage.
#[derive(Debug)]
pub(crate) struct Blamed {
    pub(crate) name: String,
    slice: Option<u32>,
    pub(crate) message: String,
}

impl From<Blamed> for StartError {
    fn from(blamed: Blamed) -> Self {
        let Blamed { name, slice, message } = blamed;
        let message = match slice {
            Some(slice) => format!("slice {slice} panicked: {message}"),
            None => format!("it panicked: {message}"),
        };
        Self::Open { name, message }
    }
}

/// Calls what `name` brought. A panic in it goes on as [`Blamed`].
pub(crate) fn blamed<T>(name: &str, slice: Option<u32>, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| match super::unwound(&*panic) {
        // It was printed where it began.
        (message, true) => {
            resume_unwind(Box::new(Blamed { name: name.to_owned(), slice, message }))
        }
        (_, false) => resume_unwind(panic),
    })
}

/// Opens something of a job; what its sources and stages panic with is an error. A panic of the engine
/// goes on.
pub(crate) fn opening<T>(open: impl FnOnce() -> Result<T, StartError>) -> Result<T, StartError> {
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|panic| match panic.downcast::<Blamed>() {
        Ok(blamed) => Err((*blamed).into()),
        Err(panic) => resume_unwind(panic),
    })
}

/// A source of a job.
pub(crate) fn source(name: &str, asked: Arc<dyn SourceFactory>) -> Arc<dyn SourceFactory> {
    Arc::new(Guarded { name: name.to_owned(), asked })
}

/// A stage of a job.
pub(crate) fn stage(name: &str, asked: Arc<dyn OperatorFactory>) -> Arc<dyn OperatorFactory> {
    Arc::new(Guarded { name: name.to_owned(), asked })
}

struct Guarded<F: ?Sized> {
    name: String,
    asked: Arc<F>,
}

impl<F: ?Sized> Guarded<F> {
    fn ask<T>(&self, call: impl FnOnce(&F) -> T) -> T {
        blamed(&self.name, None, || call(&self.asked))
    }

    fn ask_for<T>(&self, slice: u32, call: impl FnOnce(&F) -> T) -> T {
        blamed(&self.name, Some(slice), || call(&self.asked))
    }
}

// A default that is not passed on would be taken in place of what the program says.
#[deny(clippy::missing_trait_methods)]
impl SourceFactory for Guarded<dyn SourceFactory> {
    fn schema(&self) -> SchemaRef {
        self.ask(|it| it.schema())
    }

    fn slices(&self) -> u32 {
        self.ask(|it| it.slices())
    }

    fn began_with(&self) -> u32 {
        self.ask(|it| it.began_with())
    }

    fn grows(&self) -> bool {
        self.ask(|it| it.grows())
    }

    fn grow(&self) -> Result<u32, SourceError> {
        self.ask(|it| it.grow())
    }

    fn open(&self, slice: u32) -> Result<Box<dyn Source>, SourceError> {
        self.ask_for(slice, |it| it.open(slice))
    }

    fn begin(&self) -> Result<(), SourceError> {
        self.ask(|it| it.begin())
    }

    fn live(&self) -> bool {
        self.ask(|it| it.live())
    }

    fn obstacle(&self) -> Option<Obstacle> {
        asked(|| self.asked.obstacle()).ok().flatten()
    }

    fn reads(&self) -> String {
        self.ask(|it| it.reads())
    }

    fn total(&self) -> Option<u64> {
        asked(|| self.asked.total()).ok().flatten()
    }

    fn begins_at(&self, slice: u32) -> Position {
        self.ask_for(slice, |it| it.begins_at(slice))
    }

    fn follows(&self) -> bool {
        self.ask(|it| it.follows())
    }

    fn committed(&self, slice: u32, position: Position) {
        self.ask_for(slice, |it| it.committed(slice, position));
    }
}

#[deny(clippy::missing_trait_methods)]
impl OperatorFactory for Guarded<dyn OperatorFactory> {
    fn outputs(&self) -> Vec<SchemaRef> {
        self.ask(|it| it.outputs())
    }

    fn is_side(&self, output: usize) -> bool {
        self.ask(|it| it.is_side(output))
    }

    fn operator(&self) -> Box<dyn Operator> {
        self.ask(|it| it.operator())
    }

    fn state(&self, slice: SliceId) -> SliceState {
        self.ask_for(slice.0, |it| {
            let mut state = it.state(slice);
            // The engine asks for them in many places, where nobody would be blamed.
            drop(state.structures());
            state
        })
    }

    fn members(&self) -> Vec<String> {
        self.asked.members()
    }

    fn member_of(&self, output: usize) -> Option<String> {
        self.asked.member_of(output)
    }

    fn does(&self) -> String {
        self.ask(|it| it.does())
    }

    fn hash_of_entry(&self) -> Option<HashOfEntry> {
        let hash_of = self.ask(|it| it.hash_of_entry())?;
        // An entry without a hash is read with the whole of its slice.
        Some(Arc::new(move |value: &[u8]| asked(|| hash_of(value)).ok().flatten()))
    }

    fn cannot_save(&self) -> Option<String> {
        self.ask(|it| it.cannot_save())
    }

    fn wants_time(&self) -> bool {
        self.ask(|it| it.wants_time())
    }

    fn holds_back(&self) -> Span {
        self.ask(|it| it.holds_back())
    }

    fn tables(&self) -> Vec<StateTable> {
        self.asked.tables()
    }

    fn rows(
        &self,
        table: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        self.asked.rows(table, at, take)
    }
}
