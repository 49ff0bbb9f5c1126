//! Locks, condition variables, channels and atomics that a simulation can see.
//!
//! ```text
//! release build             the types of `std`, and nothing else: no call, no branch
//! with debug assertions     the same, behind a look at the thread: is it a simulated one?
//!   ├ no                    `std` does the work
//!   └ yes                   the scheduler picks the next thread, and `std` never blocks
//! ```
//!
//! Only threads of the same simulation may signal a simulated thread.

#[cfg(not(debug_assertions))]
pub use std::sync::{
    Condvar, LockResult, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    WaitTimeoutResult, atomic, mpsc,
};

#[cfg(debug_assertions)]
pub mod atomic;
#[cfg(debug_assertions)]
mod condvar;
#[cfg(debug_assertions)]
mod lock;
#[cfg(debug_assertions)]
pub mod mpsc;

#[cfg(debug_assertions)]
pub use condvar::{Condvar, WaitTimeoutResult};
#[cfg(debug_assertions)]
pub use lock::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(debug_assertions)]
pub use std::sync::{LockResult, PoisonError};
