//! Atomics: those of `std`, before each of which another simulated thread may go on.
//!
//! Relaxed operations are left out: they count things, and order nothing.

use crate::sim::schedule::here;
use std::sync::atomic;

pub use atomic::Ordering;

#[inline]
#[track_caller]
fn pass(ordering: Ordering) {
    if ordering != Ordering::Relaxed
        && let Some(here) = here()
    {
        here.pass("atomic");
    }
}

macro_rules! atomic {
    ($name:ident, $of:ty, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Default)]
        pub struct $name(atomic::$name);

        impl $name {
            /// As `std`'s.
            #[inline]
            #[must_use]
            pub const fn new(value: $of) -> Self {
                Self(atomic::$name::new(value))
            }

            /// As `std`'s.
            #[must_use]
            pub fn into_inner(self) -> $of {
                self.0.into_inner()
            }

            /// As `std`'s.
            #[inline]
            #[track_caller]
            pub fn load(&self, ordering: Ordering) -> $of {
                pass(ordering);
                self.0.load(ordering)
            }

            /// As `std`'s.
            #[inline]
            #[track_caller]
            pub fn store(&self, value: $of, ordering: Ordering) {
                pass(ordering);
                self.0.store(value, ordering);
            }

            /// As `std`'s.
            #[inline]
            #[track_caller]
            pub fn swap(&self, value: $of, ordering: Ordering) -> $of {
                pass(ordering);
                self.0.swap(value, ordering)
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $of:ty) => {
        impl $name {
            /// As `std`'s.
            #[inline]
            #[track_caller]
            pub fn fetch_add(&self, value: $of, ordering: Ordering) -> $of {
                pass(ordering);
                self.0.fetch_add(value, ordering)
            }

            /// As `std`'s.
            #[inline]
            #[track_caller]
            pub fn fetch_sub(&self, value: $of, ordering: Ordering) -> $of {
                pass(ordering);
                self.0.fetch_sub(value, ordering)
            }

            /// As `std`'s.
            ///
            /// # Errors
            /// `change` gave nothing: the value is as it was.
            #[inline]
            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($of) -> Option<$of>,
            ) -> Result<$of, $of> {
                pass(set);
                self.0.fetch_update(set, fetch, change)
            }

            /// As `std`'s.
            #[inline]
            #[track_caller]
            pub fn fetch_max(&self, value: $of, ordering: Ordering) -> $of {
                pass(ordering);
                self.0.fetch_max(value, ordering)
            }
        }
    };
}

atomic!(AtomicBool, bool, "As [`std::sync::atomic::AtomicBool`].");
atomic!(AtomicI64, i64, "As [`std::sync::atomic::AtomicI64`].");
atomic!(AtomicU32, u32, "As [`std::sync::atomic::AtomicU32`].");
atomic!(AtomicU64, u64, "As [`std::sync::atomic::AtomicU64`].");
atomic!(AtomicUsize, usize, "As [`std::sync::atomic::AtomicUsize`].");
number!(AtomicI64, i64);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);
