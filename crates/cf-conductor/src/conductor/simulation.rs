//! Whole batches over a store in memory, with simulated agents, a simulated clock and an outside world that does
//! whatever people, other batches, crashes and full disks do; all of it from one seed.
//!
//! What is simulated is everything around [`Core`](super::turn::Core): the loop that calls it (`loop_.rs`, step by step
//! as `run.rs` does), the executor (`world.rs`), and everybody else (`people.rs`). The core, the schedule, the tables
//! and the store are the real ones. After every step `log.rs` and `check.rs` compare the event log, the rows, and what
//! every conductor believes.
//!
//! `cargo test` runs the seeds from 0 on for about three seconds. For more, and for fresh ones:
//!
//! - `CF_SIM_STEPS=1000000` simulates at least so many steps;
//! - `CF_SIM_SEED=42` begins with this seed, and without `CF_SIM_STEPS` runs no other one; `CF_SIM_TRACE=1` prints what
//!   happens in it as it does.
//!
//! `cargo test --profile long -p cf-conductor --lib simulation` makes about ten times as many steps a second.
//!
//! A failure names its seed and prints the last steps before it. What it found becomes a small test in `tales.rs`.

mod check;
mod log;
mod loop_;
mod people;
mod tales;
mod world;

use std::time::{Duration, Instant};

use world::World;

/// Runs one seed to its end. Returns how many steps it took.
fn run(seed: u64) -> u64 {
    let mut world = World::new(seed);
    world.populate();
    let steps = world.rng.between(10, 90);
    for _ in 0..steps {
        world.step();
    }
    world.calm_down();
    world.steps
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number"))
    })
}

#[test]
fn every_batch_keeps_its_promises_whatever_happens_around_it() {
    let (steps, seed) = (number("CF_SIM_STEPS"), number("CF_SIM_SEED"));
    if let (None, Some(seed)) = (steps, seed) {
        run(seed);
        return;
    }
    let begun = Instant::now();
    let mut done = 0;
    let mut runs = 0u64;
    loop {
        let seed = match seed {
            Some(seed) => seed + runs,
            None => runs,
        };
        done += run(seed);
        runs += 1;
        let enough = steps.map_or(begun.elapsed() >= Duration::from_secs(3), |steps| {
            done >= steps
        });
        if enough {
            break;
        }
    }
    println!("{done} steps of {runs} runs in {:?}", begun.elapsed());
}

#[test]
fn one_seed_tells_one_story() {
    let told = |seed| {
        let mut world = World::new(seed);
        world.populate();
        (0..40).for_each(|_| world.step());
        world.story()
    };
    assert_eq!(told(7), told(7));
}
