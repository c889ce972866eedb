//! Whether a repository has a GitHub remote, read from git's configuration without starting git.

use std::path::{Path, PathBuf};

use cf_core::Repo;

/// The largest configuration that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// The first remote of the repository around `root` that is on one of these hosts: `origin` goes before others.
///
/// Nothing when there is no repository, no such remote, or the configuration cannot be read.
pub fn remote_of(root: &Path, is_host: impl Fn(&str) -> bool) -> Option<(String, Repo)> {
    let file = root.ancestors().find_map(config_of)?;
    if std::fs::metadata(&file).ok()?.len() > LARGEST {
        return None;
    }
    let text = std::fs::read_to_string(file).ok()?;
    let mut found = remotes(&text);
    found.sort_by_key(|(name, _)| name != "origin");
    found
        .iter()
        .filter_map(|(_, url)| place(url))
        .find(|(host, _)| is_host(host))
}

/// The configuration of the repository whose work tree this folder is, for a linked work tree that of the main one.
fn config_of(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    let meta = std::fs::symlink_metadata(&git).ok()?;
    if meta.is_dir() {
        return Some(git.join("config"));
    }
    let text = std::fs::read_to_string(&git).ok()?;
    let own = folder.join(text.trim().strip_prefix("gitdir:")?.trim());
    let common = match std::fs::read_to_string(own.join("commondir")) {
        Ok(path) => own.join(path.trim()),
        Err(_) => own,
    };
    Some(common.join("config"))
}

/// Names and addresses of the remotes in a configuration.
fn remotes(text: &str) -> Vec<(String, String)> {
    let mut list = Vec::new();
    let mut remote: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            remote = section
                .strip_prefix("remote \"")
                .and_then(|rest| rest.split('"').next())
                .map(str::to_owned);
        } else if let (Some(name), Some((key, value))) = (&remote, line.split_once('='))
            && key.trim().eq_ignore_ascii_case("url")
        {
            list.push((name.clone(), value.trim().trim_matches('"').to_owned()));
        }
    }
    list
}

/// Host and repository of a remote's address: `https://host/o/r.git`, `ssh://git@host/o/r`, `git@host:o/r.git`.
fn place(url: &str) -> Option<(String, Repo)> {
    let (host, path) = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?,
        None => url.split_once(':')?,
    };
    let host = host.rsplit('@').next()?;
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    Some((host.to_ascii_lowercase(), path.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("https://github.com/o/r.git" => "github.com o/r"; "https")]
    #[test_case("https://user:secret@GitHub.com/o/r" => "github.com o/r"; "credentials are dropped")]
    #[test_case("git@github.com:o/r.git" => "github.com o/r"; "scp form")]
    #[test_case("ssh://git@ghe.example:2222/o/r.git" => "ghe.example:2222 o/r"; "ssh with a port")]
    #[test_case("/srv/git/r.git" => "none"; "a path")]
    #[test_case("../r" => "none"; "another path")]
    fn reads(url: &str) -> String {
        place(url).map_or_else(
            || "none".to_owned(),
            |(host, repo)| format!("{host} {repo}"),
        )
    }

    #[test]
    fn origin_goes_before_other_remotes() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("deep/er");
        std::fs::create_dir_all(&root).unwrap();
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        let config = "[core]\n\tbare = false\n[remote \"fork\"]\n\turl = git@github.com:me/r.git\n[remote \"origin\"]\n\turl = \
                      https://github.com/o/r\n\tfetch = x\n";
        std::fs::write(folder.path().join(".git/config"), config).unwrap();
        let found = remote_of(&root, |host| host == "github.com").unwrap();
        assert_eq!(found.1.to_string(), "o/r");
        assert!(remote_of(&root, |host| host == "ghe.example").is_none());
    }
}
