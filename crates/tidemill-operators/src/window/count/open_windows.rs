//! The windows that a slice holds.

use crate::aggregate::Cells;
use crate::groups::Groups;
use crate::window::Windowed;
use std::sync::Arc;
use tidemill_state::{
    ByteReader, Delta, DirtyRows, Expiry, SavedError, SavedRows, State, Structure, row_of,
    structure::sampled,
};

/// Accumulators that nobody has, before it is worth giving their memory back.
const FREE_CELLS_MIN: usize = 1_024;

/// The window of one key; numbers are those of accumulators.
#[derive(Debug, Default)]
pub(super) struct CountWindow {
    pub(super) records: u64,
    /// The pane that is being filled.
    pub(super) filling: Option<u32>,
    pub(super) in_pane: u64,
    /// Sums from here to the end of the front, the next to leave last.
    pub(super) front: Vec<u32>,
    /// Panes after the front, oldest first.
    pub(super) back: Vec<u32>,
    /// Sum of the back.
    pub(super) back_sum: Option<u32>,
    /// It is not in memory: all else here is nothing.
    pub(super) is_away: bool,
}

impl CountWindow {
    /// All that it has.
    fn cells(&mut self) -> impl Iterator<Item = &mut u32> {
        let Self { filling, front, back, back_sum, .. } = self;
        filling.iter_mut().chain(front).chain(back).chain(back_sum)
    }
}

/// Windows of one slice.
pub(super) struct CountWindows {
    plan: Arc<Windowed>,
    pub(super) keys: Groups,
    pub(super) windows: Vec<CountWindow>,
    pub(super) cells: Cells,
    free: Vec<u32>,
    noted: DirtyRows,
    /// If windows of keys that nothing comes for leave memory. The keys stay.
    pub(super) expiry: Option<Expiry>,
}

impl CountWindows {
    /// Those of a slice without keys.
    pub(super) fn new(plan: &Arc<Windowed>) -> Self {
        Self {
            plan: Arc::clone(plan),
            keys: Groups::new(&plan.keys),
            windows: Vec::new(),
            cells: Cells::new(&plan.aggregates),
            free: Vec::new(),
            noted: DirtyRows::default(),
            expiry: None,
        }
    }

    /// The window of a key is about to change. One that is away is read back.
    #[inline]
    pub(super) fn change(&mut self, key: usize) {
        if let Some(expiry) = &mut self.expiry {
            expiry.changes(key);
            if self.windows.get(key).is_some_and(|window| window.is_away) {
                self.revive(key);
            }
        }
        let Self { keys, windows, cells, noted, .. } = self;
        noted.change(key, |out| write_key((keys, windows, cells), key, out));
    }

    /// Asks for the accumulators of a key, whose window should be in a cache by now.
    #[inline]
    pub(super) fn prefetch(&self, key: usize) {
        if let Some(window) = self.windows.get(key) {
            let parts = [window.filling, window.back_sum, window.front.last().copied()];
            parts.into_iter().flatten().for_each(|cell| self.cells.prefetch(cell));
        }
    }

    #[cold]
    fn revive(&mut self, key: usize) {
        // So that the window can be read into this, too.
        let Some(mut expiry) = self.expiry.take() else { return };
        self.windows[key] = expiry.revive(key, |bytes| self.read_window(key, bytes));
        expiry.came_back();
        self.expiry = Some(expiry);
    }

    /// The window of a key leaves memory.
    fn leave(&mut self, key: usize) {
        let away = CountWindow { is_away: true, ..CountWindow::default() };
        let mut left = std::mem::replace(&mut self.windows[key], away);
        left.cells().for_each(|cell| self.release(*cell));
    }

    /// Accumulators in a place that is free, as they were saved.
    fn restore_cell(&mut self, from: &mut ByteReader<'_>) -> Result<u32, SavedError> {
        let cell = self.fresh();
        self.cells.restore(cell as usize, from)?;
        Ok(cell)
    }

    /// The window of a key, as it was saved; the key is there already, or the next.
    fn read_window(&mut self, key: usize, saved: &[u8]) -> Result<CountWindow, SavedError> {
        let mut from = ByteReader::new(saved);
        self.keys.restore(key, &mut from)?;
        let (records, in_pane) = (from.u64()?, from.u64()?);
        let filling = self.restore_cells(&mut from)?.pop();
        let (front, back) = (self.restore_cells(&mut from)?, self.restore_cells(&mut from)?);
        let back_sum = self.restore_cells(&mut from)?.pop();
        from.end()?;
        Ok(CountWindow { records, filling, in_pane, front, back, back_sum, is_away: false })
    }

    pub(super) fn restore_row(&mut self, key: usize, saved: &[u8]) -> Result<(), SavedError> {
        let window = self.read_window(key, saved)?;
        self.windows.push(window);
        if let Some(expiry) = &mut self.expiry
            && !expiry.restores(saved.len())
        {
            expiry.left();
            self.leave(key);
        }
        Ok(())
    }

    /// Gives back the memory of accumulators that nobody has, when that is most of it.
    fn compact(&mut self) {
        if self.free.len() < FREE_CELLS_MIN || self.free.len() < self.cells.groups() / 4 * 3 {
            return;
        }
        let held: Vec<u32> =
            self.windows.iter_mut().flat_map(CountWindow::cells).map(|it| *it).collect();
        let copied = self.cells.copied(&self.plan.aggregates, &held);
        self.cells = copied.expect("it is read as it was saved");
        let cells = self.windows.iter_mut().flat_map(CountWindow::cells);
        cells.zip(0..).for_each(|(cell, copy)| *cell = copy);
        self.free = Vec::new();
    }

    fn restore_cells(&mut self, from: &mut ByteReader<'_>) -> Result<Vec<u32>, SavedError> {
        let count = from.u32()?;
        (0..count).map(|_| self.restore_cell(from)).collect()
    }

    pub(super) fn fresh(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.cells.resize(self.cells.groups() + 1);
            self.cells.groups() as u32 - 1
        })
    }

    pub(super) fn release(&mut self, cell: u32) {
        self.cells.clear(cell as usize);
        self.free.push(cell);
    }
}

/// Writes a key with its window and the accumulators of that.
fn write_key(
    (keys, windows, cells): (&Groups, &[CountWindow], &Cells),
    key: usize,
    out: &mut Vec<u8>,
) -> bool {
    // A key that has just come has no window yet.
    let Some(window) = windows.get(key) else { return false };
    keys.save(key, out);
    out.extend_from_slice(&window.records.to_le_bytes());
    out.extend_from_slice(&window.in_pane.to_le_bytes());
    let one = |it: &Option<u32>| it.iter().copied().collect::<Vec<u32>>();
    let parts = [&one(&window.filling), &window.front, &window.back, &one(&window.back_sum)];
    for part in parts {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
        part.iter().for_each(|cell| cells.save(*cell as usize, out));
    }
    true
}

impl State for CountWindows {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![self]
    }
}

impl Structure for CountWindows {
    fn memory(&self) -> usize {
        let of = |key: usize| {
            let window = &self.windows[key];
            (window.front.capacity() + window.back.capacity()) * size_of::<u32>()
        };
        self.keys.memory()
            + self.windows.capacity() * size_of::<CountWindow>()
            + sampled(self.windows.len(), of)
            + self.cells.memory()
            + self.free.capacity() * size_of::<u32>()
            + self.noted.memory()
            + self.expiry.as_ref().map_or(0, Expiry::memory)
    }

    fn track(&mut self) {
        self.noted.track();
    }

    fn freeze(&mut self) {
        self.noted.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let Self { keys, windows, cells, noted, .. } = self;
        noted.drain(delta, most, &mut |key, out| write_key((keys, windows, cells), key, out))
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        self.restore_row(row_of(key)?, value)
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        self.keys.restored()
    }

    fn can_expire(&self) -> bool {
        true
    }

    fn expires(&mut self, saved: SavedRows) {
        self.expiry = Some(Expiry::new(saved));
    }

    fn begin_expiry(&mut self) {
        if let Some(expiry) = &mut self.expiry {
            expiry.begin(self.windows.len(), &self.noted);
        }
    }

    fn expire(&mut self, most: &mut usize) -> bool {
        let Some(mut expiry) = self.expiry.take() else { return true };
        let next = (0..*most).map_while(|_| expiry.next_to_leave()).collect::<Vec<_>>();
        *most -= next.len();
        let is_done = *most > 0;
        for key in next {
            if !self.windows[key].is_away {
                expiry.left();
                self.leave(key);
            }
        }
        self.expiry = Some(expiry);
        if is_done {
            self.compact();
        }
        is_done
    }
}
