//! `Mutex` and `RwLock`: those of `std`, which a simulated thread tries, and waits in the scheduler
//! while they are held.
//!
//! Invariant: taking and letting go are moments at which another thread may go on.

use crate::sim::schedule::{SimThreadContext, here, key_of};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{self, LockResult, PoisonError, TryLockError, TryLockResult},
};

/// Tries until it is there.
#[track_caller]
fn take<G>(
    here: &SimThreadContext,
    key: usize,
    mut attempt: impl FnMut() -> TryLockResult<G>,
) -> LockResult<G> {
    loop {
        match attempt() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
            Err(TryLockError::WouldBlock) => here.wait_on(key, "lock"),
        }
    }
}

/// Maps the guard, poisoned or not.
pub(super) fn map<A, B>(result: LockResult<A>, with: impl FnOnce(A) -> B) -> LockResult<B> {
    match result {
        Ok(guard) => Ok(with(guard)),
        Err(poisoned) => Err(PoisonError::new(with(poisoned.into_inner()))),
    }
}

/// As [`std::sync::Mutex`].
#[derive(Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// As [`std::sync::MutexGuard`].
pub struct MutexGuard<'a, T: ?Sized> {
    of: &'a Mutex<T>,
    /// There until it is dropped.
    guard: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// As [`std::sync::Mutex::new`].
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// As [`std::sync::Mutex::into_inner`].
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// As [`std::sync::Mutex::get_mut`].
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    /// As [`std::sync::Mutex::lock`].
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match here() {
            None => self.hold(self.0.lock()),
            Some(here) => {
                here.pass("lock");
                self.lock_at_once(&here)
            }
        }
    }

    /// Takes it without giving way first.
    #[track_caller]
    pub(super) fn lock_at_once(&self, here: &SimThreadContext) -> LockResult<MutexGuard<'_, T>> {
        self.hold(take(here, key_of(self), || self.0.try_lock()))
    }

    pub(super) fn hold<'a>(
        &'a self,
        taken: LockResult<sync::MutexGuard<'a, T>>,
    ) -> LockResult<MutexGuard<'a, T>> {
        map(taken, |guard| MutexGuard { of: self, guard: Some(guard) })
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Splits into the lock and `std`'s guard.
    pub(super) fn apart(mut self) -> (&'a Mutex<T>, sync::MutexGuard<'a, T>) {
        (self.of, self.guard.take().expect("it is there until it is dropped"))
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("it is there until it is dropped")
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            drop(guard);
            if let Some(here) = here() {
                here.wake_all(key_of(self.of));
                here.pass("unlock");
            }
        }
    }
}

/// As [`std::sync::RwLock`].
#[derive(Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// As [`std::sync::RwLock::new`].
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// As [`std::sync::RwLock::read`].
    ///
    /// # Errors
    /// A thread panicked while it held the lock to write.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let key = key_of(self);
        let taken = match here() {
            None => self.0.read(),
            Some(here) => {
                here.pass("read");
                take(&here, key, || self.0.try_read())
            }
        };
        map(taken, |guard| RwLockReadGuard { key, guard: Some(guard) })
    }

    /// As [`std::sync::RwLock::write`].
    ///
    /// # Errors
    /// A thread panicked while it held the lock to write.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let key = key_of(self);
        let taken = match here() {
            None => self.0.write(),
            Some(here) => {
                here.pass("write");
                take(&here, key, || self.0.try_write())
            }
        };
        map(taken, |guard| RwLockWriteGuard { key, guard: Some(guard) })
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// As [`std::sync::RwLockReadGuard`].
pub struct RwLockReadGuard<'a, T: ?Sized> {
    key: usize,
    guard: Option<sync::RwLockReadGuard<'a, T>>,
}

/// As [`std::sync::RwLockWriteGuard`].
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    key: usize,
    guard: Option<sync::RwLockWriteGuard<'a, T>>,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("it is there until it is dropped")
    }
}

fn let_go<G>(key: usize, guard: &mut Option<G>) {
    drop(guard.take());
    if let Some(here) = here() {
        here.wake_all(key);
        here.pass("unlock");
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        let_go(self.key, &mut self.guard);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        let_go(self.key, &mut self.guard);
    }
}
