//! Guards around the code of a program: a panic in a factory unwinds with the name of its stage,
//! and a job that is being opened is refused.
//!
//! Calls with records are guarded elsewhere: operators and sources, where they are called. Calls
//! for snapshots pass through unguarded, or return nothing.

use crate::error::StartError;
use crate::operator::{Operator, OperatorError, OperatorFactory, SliceState};
use crate::snapshot::{StateAt, StateTable, TakeRows};
use crate::source::{
    CommitFollower, GrowingSource, GuessedColumn, Obstacle, Position, Source, SourceError,
    SourceFactory,
};
use arrow_schema::SchemaRef;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};
use tidemill_state::HashOfEntry;
use tidemill_types::{SliceId, Span};

/// Calls code of a program, and catches its panic.
///
/// # Errors
/// It panicked; the error has the message of the panic.
pub fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| match super::unwound(&*panic) {
        (message, true) => format!("it panicked: {message}"),
        (message, false) => message,
    })
}

/// A panic of a source or a stage.
#[derive(Debug)]
pub(crate) struct BlamedPanic {
    pub(crate) name: String,
    slice: Option<SliceId>,
    pub(crate) message: String,
}

impl From<BlamedPanic> for StartError {
    fn from(blamed: BlamedPanic) -> Self {
        let BlamedPanic { name, slice, message } = blamed;
        let message = match slice {
            Some(slice) => format!("slice {slice} panicked: {message}"),
            None => format!("it panicked: {message}"),
        };
        Self::Open { name, message }
    }
}

/// Calls code of the stage `name`. Its panic goes on as [`BlamedPanic`].
pub(crate) fn call_blaming<T>(name: &str, slice: Option<SliceId>, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| match super::unwound(&*panic) {
        // It was printed where it began.
        (message, true) => {
            resume_unwind(Box::new(BlamedPanic { name: name.to_owned(), slice, message }))
        }
        (_, false) => resume_unwind(panic),
    })
}

/// Opens a part of a job. A panic of its sources and operators becomes an error; a panic of the
/// engine goes on.
pub(crate) fn open_guarded<T>(
    open: impl FnOnce() -> Result<T, StartError>,
) -> Result<T, StartError> {
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|panic| {
        match panic.downcast::<BlamedPanic>() {
            Ok(blamed) => Err((*blamed).into()),
            Err(panic) => resume_unwind(panic),
        }
    })
}

/// A source of a job.
pub(crate) fn guard_source(name: &str, inner: Arc<dyn SourceFactory>) -> Arc<dyn SourceFactory> {
    Arc::new(PanicGuard { name: name.to_owned(), inner })
}

/// A stage of a job.
pub(crate) fn guard_operator(
    name: &str,
    inner: Arc<dyn OperatorFactory>,
) -> Arc<dyn OperatorFactory> {
    Arc::new(PanicGuard { name: name.to_owned(), inner })
}

struct PanicGuard<F: ?Sized> {
    name: String,
    inner: Arc<F>,
}

impl<F: ?Sized> PanicGuard<F> {
    fn call<T>(&self, call: impl FnOnce(&F) -> T) -> T {
        call_blaming(&self.name, None, || call(&self.inner))
    }

    fn call_for<T>(&self, slice: SliceId, call: impl FnOnce(&F) -> T) -> T {
        call_blaming(&self.name, Some(slice), || call(&self.inner))
    }
}

// A default that is not passed on would be taken in place of what the program says.
#[deny(clippy::missing_trait_methods)]
impl SourceFactory for PanicGuard<dyn SourceFactory> {
    fn schema(&self) -> SchemaRef {
        self.call(|it| it.schema())
    }

    fn slices(&self) -> u32 {
        self.call(|it| it.slices())
    }

    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        self.call_for(slice, |it| it.open(slice))
    }

    fn begin(&self) -> Result<(), SourceError> {
        self.call(|it| it.begin())
    }

    fn live(&self) -> bool {
        self.call(|it| it.live())
    }

    fn obstacle(&self) -> Option<Obstacle> {
        catch_panic(|| self.inner.obstacle()).ok().flatten()
    }

    fn guessed(&self) -> Vec<GuessedColumn> {
        self.call(|it| it.guessed())
    }

    fn reads(&self) -> String {
        self.call(|it| it.reads())
    }

    fn total(&self) -> Option<u64> {
        catch_panic(|| self.inner.total()).ok().flatten()
    }

    fn begins_at(&self, slice: SliceId) -> Position {
        self.call_for(slice, |it| it.begins_at(slice))
    }

    fn growth(&self) -> Option<&dyn GrowingSource> {
        self.call(|it| it.growth().is_some()).then_some(self)
    }

    fn follower(&self) -> Option<&dyn CommitFollower> {
        self.call(|it| it.follower().is_some()).then_some(self)
    }
}

/// The same source, as [`SourceFactory::growth`] shows it.
#[deny(clippy::missing_trait_methods)]
impl GrowingSource for PanicGuard<dyn SourceFactory> {
    fn began_with(&self) -> u32 {
        self.call(|it| it.growth().map_or_else(|| it.slices(), GrowingSource::began_with))
    }

    fn grow(&self) -> Result<u32, SourceError> {
        self.call(|it| it.growth().map_or_else(|| Ok(it.slices()), GrowingSource::grow))
    }
}

/// The same source, as [`SourceFactory::follower`] shows it.
#[deny(clippy::missing_trait_methods)]
impl CommitFollower for PanicGuard<dyn SourceFactory> {
    fn committed(&self, slice: SliceId, position: Position) {
        let committed = |it: &dyn CommitFollower| it.committed(slice, position);
        self.call_for(slice, |it| it.follower().map_or((), committed));
    }
}

#[deny(clippy::missing_trait_methods)]
impl OperatorFactory for PanicGuard<dyn OperatorFactory> {
    fn outputs(&self) -> Vec<SchemaRef> {
        self.call(|it| it.outputs())
    }

    fn is_side(&self, output: usize) -> bool {
        self.call(|it| it.is_side(output))
    }

    fn operator(&self) -> Box<dyn Operator> {
        self.call(|it| it.operator())
    }

    fn state(&self, slice: SliceId) -> SliceState {
        self.call_for(slice, |it| {
            let mut state = it.state(slice);
            // The engine asks for them in many places, where nobody would be blamed.
            drop(state.structures());
            state
        })
    }

    fn members(&self) -> Vec<String> {
        self.inner.members()
    }

    fn member_of(&self, output: usize) -> Option<String> {
        self.inner.member_of(output)
    }

    fn does(&self) -> String {
        self.call(|it| it.does())
    }

    fn hash_of_entry(&self) -> Option<HashOfEntry> {
        let hash_of = self.call(|it| it.hash_of_entry())?;
        // An entry without a hash is read with the whole of its slice.
        Some(Arc::new(move |value: &[u8]| catch_panic(|| hash_of(value)).ok().flatten()))
    }

    fn cannot_save(&self) -> Option<String> {
        self.call(|it| it.cannot_save())
    }

    fn wants_time(&self) -> bool {
        self.call(|it| it.wants_time())
    }

    fn holds_back(&self) -> Span {
        self.call(|it| it.holds_back())
    }

    fn tables(&self) -> Vec<StateTable> {
        self.inner.tables()
    }

    fn rows(
        &self,
        table: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        self.inner.rows(table, at, take)
    }
}
