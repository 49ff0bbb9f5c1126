//! Parts of the program that runs a job, by name: operators, sources, sinks.

use arrow_schema::SchemaRef;
use indexmap::IndexMap;
use std::{fmt, sync::Arc};
use tidemill_flow::{OperatorFactory, Sink, SourceFactory};

/// Makes an operator for a stage, given the schema of its input; or says why it cannot.
pub type MakeOperator =
    Arc<dyn Fn(&SchemaRef) -> Result<Arc<dyn OperatorFactory>, String> + Send + Sync>;

/// Makes a sink, given the schema of its input; or says why it cannot.
pub type MakeSink = Arc<dyn Fn(&SchemaRef) -> Result<Box<dyn Sink>, String> + Send + Sync>;

/// Operators, sources and sinks by name.
#[derive(Clone, Default)]
pub struct Registry {
    operators: IndexMap<String, MakeOperator>,
    sources: IndexMap<String, Arc<dyn SourceFactory>>,
    sinks: IndexMap<String, MakeSink>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("operators", &self.operators.keys())
            .field("sources", &self.sources.keys())
            .field("sinks", &self.sinks.keys())
            .finish()
    }
}

impl Registry {
    /// Adds an operator that stages name with `operator`.
    pub fn add_operator(&mut self, name: impl Into<String>, make: MakeOperator) {
        self.operators.insert(name.into(), make);
    }

    /// Adds the source of this name.
    pub fn add_source(&mut self, name: impl Into<String>, source: Arc<dyn SourceFactory>) {
        self.sources.insert(name.into(), source);
    }

    /// Adds where the sink of this name writes.
    pub fn add_sink(&mut self, name: impl Into<String>, make: MakeSink) {
        self.sinks.insert(name.into(), make);
    }

    /// The operator of this name.
    #[must_use]
    pub fn operator(&self, name: &str) -> Option<&MakeOperator> {
        self.operators.get(name)
    }

    /// The source of this name.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<&Arc<dyn SourceFactory>> {
        self.sources.get(name)
    }

    /// The sink of this name.
    #[must_use]
    pub fn sink(&self, name: &str) -> Option<&MakeSink> {
        self.sinks.get(name)
    }

    /// Names of the operators.
    pub fn operators(&self) -> impl Iterator<Item = &str> {
        self.operators.keys().map(String::as_str)
    }
}
