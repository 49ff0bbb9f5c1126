//! placeholder
use super::{
    inbox::{CycleEnd, Parcel},
    job::Job,
    lane::Lane,
};
use std::sync::Arc;
pub(crate) struct Peers;
impl Peers {
    pub(crate) fn send(
        &self,
        _: &Job,
        _: usize,
        _: &Arc<Lane>,
        _: usize,
        _: CycleEnd,
        _: &mut Vec<Parcel>,
    ) -> Result<(), String> {
        Err("no peer".into())
    }
    pub(crate) fn credit(&self, _: &Job, _: usize, _: u64) {}
    pub(crate) fn close(&self) {}
}
