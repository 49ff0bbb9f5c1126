//! Bytes for nonces and secrets.
//!
//! [`Random`](crate::Random) is the same for the same seed, on every machine, so it is no secret. Bytes
//! from here are those of the operating system in the real world. In a simulated one they follow
//! from the seed, so that a run can be repeated.

use crate::Random;
use std::{
    io,
    sync::{Mutex, PoisonError},
};

/// A source of bytes that nobody can guess.
pub trait Entropy: Send + Sync {
    /// Fills the buffer.
    ///
    /// # Errors
    /// The system gives none; then no secret may be made.
    fn fill(&self, into: &mut [u8]) -> io::Result<()>;
}

/// The operating system's.
#[derive(Debug)]
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, into: &mut [u8]) -> io::Result<()> {
        getrandom::fill(into).map_err(|error| {
            error.raw_os_error().map_or_else(
                || io::Error::other(format!("the system gives no random bytes: {error}")),
                io::Error::from_raw_os_error,
            )
        })
    }
}

/// Bytes of a seed, for simulations alone. Each call gives the ones after those of the last call.
#[derive(Debug)]
pub(crate) struct SeededEntropy(Mutex<Random>);

impl SeededEntropy {
    /// Keeps these bytes apart from other streams of numbers of the same seed.
    const PURPOSE: u64 = 0x656e_7472_6f70_7900;

    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(Random::new(Random::new(seed).next() ^ Self::PURPOSE)))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, into: &mut [u8]) -> io::Result<()> {
        let mut random = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in into.chunks_mut(size_of::<u64>()) {
            piece.copy_from_slice(&random.next().to_le_bytes()[..piece.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Real and simulated entropy.

    use crate::World;

    fn bytes(world: &World) -> [u8; 19] {
        let mut bytes = [0; 19];
        world.entropy.fill(&mut bytes).expect("there is entropy");
        bytes
    }

    #[test]
    fn simulated_entropy_repeats_by_seed_and_never_within_a_run() {
        let (one, again) = (World::simulated(7).world, World::simulated(7).world);
        let first = bytes(&one);
        assert_eq!(first, bytes(&again));
        assert_ne!(first, bytes(&one));
        assert_ne!(first, bytes(&World::simulated(8).world));
    }

    #[test]
    fn real_entropy_is_new_each_time() {
        let world = World::real();
        assert_ne!(bytes(&world), bytes(&world));
    }
}
