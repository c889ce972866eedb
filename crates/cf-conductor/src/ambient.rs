//! What no decision may depend on by itself: the time, and ids that nobody has drawn before.
//!
//! Tests put a simulated source in their place, so that a batch runs the same way twice from one seed.

use cf_core::Timestamp;
use uuid::Uuid;

/// The current time in whole milliseconds, which is what the store keeps.
pub(crate) fn now() -> Timestamp {
    #[cfg(test)]
    if let Some(at) = simulated::now() {
        return at;
    }
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// A random id.
pub(crate) fn fresh_id() -> Uuid {
    #[cfg(test)]
    if let Some(id) = simulated::fresh_id() {
        return id;
    }
    Uuid::new_v4()
}

/// A clock and ids of a test's own, for the thread that sets them.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;

    use cf_core::Timestamp;
    use uuid::Uuid;

    thread_local! {
        static REFUSALS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
        static NOW_MS: Cell<Option<i64>> = const { Cell::new(None) };
        static NEXT_ID: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Sets the time of this thread; `None` gives the real one back.
    pub(crate) fn set_now(at: Option<Timestamp>) {
        NOW_MS.set(at.map(Timestamp::as_millisecond));
    }

    /// Sets where the ids of this thread begin; `None` gives random ones back.
    pub(crate) fn set_ids(seed: Option<u64>) {
        NEXT_ID.set(seed);
    }

    /// From now on a store refuses this thread so many of a thousand uses. Returns how many it was.
    pub(crate) fn refuse(per_mille: u64) -> u64 {
        let (before, drawn) = REFUSALS.get();
        REFUSALS.set((per_mille, drawn));
        before
    }

    /// Sets which uses of a store are refused.
    pub(crate) fn seed_refusals(seed: u64) {
        REFUSALS.set((0, seed));
    }

    /// Whether this use of a store is refused.
    pub(crate) fn is_refused() -> bool {
        let (per_mille, drawn) = REFUSALS.get();
        if per_mille == 0 {
            return false;
        }
        let next = drawn.wrapping_add(0x9e37_79b9_7f4a_7c15);
        REFUSALS.set((per_mille, next));
        mixed(next) % 1_000 < per_mille
    }

    pub(super) fn now() -> Option<Timestamp> {
        NOW_MS.get().map(|ms| {
            Timestamp::from_millisecond(ms).expect("a test's clock stays within the calendar")
        })
    }

    pub(super) fn fresh_id() -> Option<Uuid> {
        let state = NEXT_ID.get()?;
        // SplitMix64 (Steele, Lea, Flood 2014): ids in no order, each only once.
        let next = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        NEXT_ID.set(Some(next));
        Some(Uuid::from_u64_pair(mixed(next), next))
    }

    const fn mixed(state: u64) -> u64 {
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
