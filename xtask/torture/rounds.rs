//! Rounds of torture: each a fresh workspace, a batch, an adversary for some seconds, and then the reckoning.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cf_conductor::fault::MUTANTS;
use cf_testkit::github::ScriptedGithub;
use cf_testkit::process;

use crate::adversary::Adversary;
use crate::agents::{self, REPO};
use crate::check;
use crate::ground::{Ground, Kind, PATIENCE};
use crate::rng::Rng;

/// A user that nobody else is: the processes of a round can then be limited without limiting anybody else's.
const USER: u32 = 61_789;

/// What rounds are to be made.
pub(crate) struct Options {
    pub(crate) cf: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    /// One round alone.
    pub(crate) round: Option<u64>,
    /// In which way `cf` is broken.
    pub(crate) mutant: Option<&'static str>,
}

/// How many rounds a broken `cf` may survive.
const ROUNDS_OF_A_MUTANT: u64 = 40;

/// Breaks `cf` in every way whose name contains the text, and makes rounds until one of them finds it. Returns how many
/// ways were not found.
pub(crate) fn mutants(cf: &Path, folder: &Path, seed: u64, only: Option<&str>) -> u64 {
    let mut missed = 0;
    for mutant in MUTANTS {
        if only.is_some_and(|only| !mutant.contains(only)) {
            continue;
        }
        let options = Options {
            cf: cf.to_owned(),
            folder: folder.to_owned(),
            seed,
            time: Duration::ZERO,
            round: None,
            mutant: Some(mutant),
        };
        let found = (0..ROUNDS_OF_A_MUTANT).find_map(|round| {
            let base = folder.join(format!("{mutant}-{round}"));
            let faults = one(&options, &base, round).err()?;
            let _ = fs::remove_dir_all(&base);
            Some((round + 1, faults))
        });
        if let Some((rounds, faults)) = found {
            let first = faults.first().and_then(|fault| fault.lines().next());
            println!(
                "found {mutant} in {rounds} rounds: {}",
                first.unwrap_or_default()
            );
        } else {
            missed += 1;
            println!("MISSED {mutant} in {ROUNDS_OF_A_MUTANT} rounds of seed {seed}");
        }
    }
    missed
}

/// Makes rounds until the time is over. Returns how many there were, and how many of them found a fault.
pub(crate) fn run(options: &Options) -> (u64, u64) {
    let end = Instant::now() + options.time;
    let (mut rounds, mut bad) = (0, 0);
    let mut round = options.round.unwrap_or(0);
    loop {
        let begun = Instant::now();
        let base = options.folder.join(format!("{}-{round}", options.seed));
        let found = one(options, &base, round);
        rounds += 1;
        let seconds = begun.elapsed().as_secs_f32();
        match found {
            Ok(told) => println!(
                "ok    seed {} round {round}: {told} ({seconds:.1} s)",
                options.seed
            ),
            Err(faults) => {
                bad += 1;
                println!(
                    "FAIL  seed {} round {round} ({seconds:.1} s), kept in {}\n      {}\n      \
                     again: cargo xtask torture --seed {} --round {round}",
                    options.seed,
                    base.display(),
                    faults.join("\n").replace('\n', "\n      "),
                    options.seed
                );
            }
        }
        round += 1;
        if options.round.is_some() || Instant::now() >= end {
            return (rounds, bad);
        }
    }
}

/// One round. Returns what there was in it, or everything that is wrong.
fn one(options: &Options, base: &Path, round: u64) -> Result<String, Vec<String>> {
    let mut rng = Rng::of_round(options.seed, round);
    let alone = |fault: String| vec![fault];
    let root = rustix::process::geteuid().is_root();
    let kind = Kind {
        small_disk: root && rng.once_in(3),
        user: (root && rng.once_in(2)).then_some(USER),
        repository: rng.once_in(2),
    };
    let github = rng.once_in(3).then(ScriptedGithub::start);
    let mut extra = Vec::new();
    if let Some(github) = &github {
        for issue in 1..=80 {
            github.issue(REPO, issue);
        }
        extra.extend(
            github
                .environment()
                .map(|(name, value)| (name.to_owned(), value)),
        );
    } else {
        extra.push(("CF_RECONCILE_GITHUB".to_owned(), "false".to_owned()));
    }
    extra.extend(
        options
            .mutant
            .map(|mutant| ("CF_MUTANT".to_owned(), mutant.to_owned())),
    );
    let mut ground = Ground::new(base, &options.cf, kind, extra).map_err(alone)?;
    let tasks = agents::tasks(&mut rng, &ground.books, github.is_some());
    let keys: Vec<String> = tasks.iter().map(|task| task.key.clone()).collect();
    ground.import(&tasks).map_err(alone)?;
    let time = Duration::from_millis(rng.within(2_000, 9_000));
    let mut adversary = Adversary::new(&mut rng, &mut ground, github.as_ref(), keys);
    let mut faults: Vec<String> = Vec::new();
    faults.extend(adversary.torment(time).err());
    let calm = base.join("books/calm");
    faults.extend(fs::write(&calm, "").err().map(|error| error.to_string()));
    adversary.collect(PATIENCE);
    faults.extend(adversary.come_to_rest(2 * PATIENCE).err());
    if faults.is_empty() {
        faults.extend(adversary.resume_everything(2 * PATIENCE).err());
    }
    faults.append(&mut adversary.faults);
    let (said, did) = (
        std::mem::take(&mut adversary.said),
        std::mem::take(&mut adversary.did),
    );
    let _ = fs::write(base.join("deeds"), did.join("\n"));
    faults.extend(ground.one_more_batch().err());
    faults.extend(check::faults(&mut ground, &said));
    if faults.is_empty() {
        let attempts = ground
            .texts("SELECT count(*) || ' attempts' FROM attempt")
            .join("");
        ground.remove();
        return Ok(format!(
            "{} deeds, {} tasks{}, {attempts}",
            did.len(),
            tasks.len(),
            if kind.repository { " in worktrees" } else { "" }
        ));
    }
    faults.extend(ground.supervisors().iter().map(|pid| {
        format!(
            "supervisor {pid}: below it {:?}",
            process::descendants(*pid)
        )
    }));
    ground.keep();
    Err(faults)
}
