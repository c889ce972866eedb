//! Golden lists: what is true now is compared with what a reviewer has seen.

use std::fs;
use std::path::Path;

use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::Repo;

/// Compares lines with the golden file, or rewrites it with `--update`. Returns what differs, a finding a line.
pub(crate) fn compare(
    repo: &Repo,
    mode: Mode,
    file: &str,
    lines: &[String],
) -> Result<Vec<String>, Problem> {
    let path = repo.root.join("xtask/golden").join(file);
    let text = lines.join("\n") + "\n";
    if mode.update {
        if fs::read_to_string(&path).ok().as_deref() != Some(text.as_str()) {
            fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            fs::write(&path, text)?;
        }
        return Ok(Vec::new());
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    let golden: Vec<&str> = golden.lines().collect();
    let gone = golden
        .iter()
        .filter(|line| !lines.iter().any(|new| new == *line))
        .map(|line| format!("{file}: no longer: {line}"));
    let new = lines
        .iter()
        .filter(|line| !golden.contains(&line.as_str()))
        .map(|line| format!("{file}: new: {line}"));
    Ok(gone.chain(new).collect())
}
