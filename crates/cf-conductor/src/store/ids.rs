//! Sets and maps by the ids of tasks, for what goes through all tasks there are.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use cf_core::TaskId;

/// Hashes what is random already, as ids are, and so cheaply.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(size_of::<u64>()) {
            let mut word = [0; size_of::<u64>()];
            word[..part.len()].copy_from_slice(part);
            // The product with an odd number (here 2^64 divided by the golden ratio) keeps all that the word tells.
            self.0 = (self.0.rotate_left(32) ^ u64::from_ne_bytes(word))
                .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A set of ids.
pub type IdSet = HashSet<TaskId, BuildHasherDefault<IdHasher>>;

/// A map by ids.
pub type ById<T> = HashMap<TaskId, T, BuildHasherDefault<IdHasher>>;
