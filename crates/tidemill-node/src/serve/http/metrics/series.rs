//! Figures with labels: one name, a sample for each thing that there is.
//!
//! Invariant: a page has at most [`SERIES_MAX`] samples of each kind of thing; a thing that does not fit is
//! left out whole, and the caller counts it.

use super::Page;
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};
use std::{borrow::Borrow, fmt};

/// Most samples of jobs, of streams, and of groups on a page.
pub(super) const SERIES_MAX: usize = 10_000;

/// The labels of a sample. The encoder escapes the values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A figure that each thing of a kind has: its name, its meaning, and its value.
pub(super) struct Figure<T> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: MetricType,
    pub(super) of: fn(&T) -> f64,
}

impl<T> Figure<T> {
    /// True if it only grows.
    pub(super) fn counts(&self) -> bool {
        matches!(self.kind, MetricType::Counter)
    }
}

/// A figure that only grows while the thing is there.
pub(super) const fn counter<T>(
    name: &'static str,
    help: &'static str,
    of: fn(&T) -> f64,
) -> Figure<T> {
    Figure { name, help, kind: MetricType::Counter, of }
}

/// A figure that goes up and down.
pub(super) const fn gauge<T>(
    name: &'static str,
    help: &'static str,
    of: fn(&T) -> f64,
) -> Figure<T> {
    Figure { name, help, kind: MetricType::Gauge, of }
}

#[derive(Debug)]
struct Series {
    kind: MetricType,
    samples: Vec<(Labels, f64)>,
}

impl EncodeMetric for Series {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        for (labels, value) in &self.samples {
            let mut sample = encoder.encode_family(labels)?;
            match self.kind {
                MetricType::Counter => {
                    sample.encode_counter::<NoLabelSet, f64, f64>(value, None)?;
                }
                _ => sample.encode_gauge(value)?,
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }
}

impl Page {
    /// The figures of things with their labels.
    pub(super) fn series<T, B: Borrow<T>>(
        &mut self,
        figures: &[Figure<T>],
        things: &[(Labels, B)],
    ) {
        self.series_of(figures, things, |_| true);
    }

    /// The figures of things with their labels; those that go up and down only of things that are there now.
    pub(super) fn series_of<T, B: Borrow<T>>(
        &mut self,
        figures: &[Figure<T>],
        things: &[(Labels, B)],
        is_there: impl Fn(&Labels) -> bool,
    ) {
        for figure in figures {
            let is_shown = |labels| figure.counts() || is_there(labels);
            let shown = things.iter().filter(|(labels, _)| is_shown(labels));
            let of = |thing: &B| (figure.of)(thing.borrow());
            let samples = shown.map(|(labels, thing)| (labels.clone(), of(thing))).collect();
            self.0.register(figure.name, figure.help, Series { kind: figure.kind, samples });
        }
    }
}
