//! Migrations never change once they have landed: somebody's database has run them.

use std::fs;

use crate::checks::golden;
use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::Repo;

const FOLDER: &str = "crates/cf-conductor/migrations";

/// Every migration still has the checksum under which it landed.
pub(crate) fn unchanged(repo: &Repo, mode: Mode) -> Result<String, Problem> {
    let mut lines = Vec::new();
    let entries = fs::read_dir(repo.root.join(FOLDER))
        .map_err(|error| Problem::new(format!("cannot read {FOLDER}: {error}")))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        lines.push(format!("{name} {:016x}", fnv1a(&fs::read(&path)?)));
    }
    lines.sort();
    let findings = golden::compare(repo, mode, "migrations.txt", &lines)?;
    Problem::unless_empty(
        &findings,
        format!("{} migrations as they landed", lines.len()),
        "a migration that has landed is never edited: write a new one; `cargo xtask ci --update` is for those that have not landed",
    )
}

/// The FNV-1a hash, 64 bits: it finds an edit, which is all that it is asked to do.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vectors of FNV-1a.
    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
