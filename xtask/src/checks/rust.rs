//! What the toolchain checks: format, lints, documentation, and the tests that take long.

use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::{Repo, must};

/// Every file is formatted as rustfmt would.
pub(crate) fn format(repo: &Repo, _: Mode) -> Result<String, Problem> {
    must(&mut repo.cargo(&["fmt", "--all", "--", "--check", "-l"]))
        .map_err(|_| Problem::new("some files are not formatted").hint("run `cargo fmt --all`"))?;
    Ok("as rustfmt writes it".to_owned())
}

/// No warning of clippy, in any target.
pub(crate) fn clippy(repo: &Repo, _: Mode) -> Result<String, Problem> {
    must(&mut repo.cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ]))
    .map_err(|_| {
        Problem::new("clippy has something to say (above)")
            .hint("follow it, or write #[expect(lint, reason = \"…\")] where it is wrong")
    })?;
    Ok("no warning in any target".to_owned())
}

/// The documentation of every crate builds without a warning: no missing docs, no dead link.
pub(crate) fn rustdoc(repo: &Repo, _: Mode) -> Result<String, Problem> {
    must(
        repo.cargo(&[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ])
        .env("RUSTDOCFLAGS", "-D warnings"),
    )
    .map_err(|_| Problem::new("rustdoc has something to say (above)"))?;
    Ok("no warning".to_owned())
}

/// The tests that are marked `#[ignore]` because they take long.
pub(crate) fn long_tests(repo: &Repo, _: Mode) -> Result<String, Problem> {
    // `tls::child` is the second half of two other tests, which start it with an environment of its own.
    let not_alone = "tls::child";
    // These need a browser, and are a check of their own.
    let browser = "browser::";
    must(&mut repo.cargo(&[
        "test",
        "--workspace",
        "--",
        "--ignored",
        "--skip",
        not_alone,
        "--skip",
        browser,
        // They have a check of their own, which installs what they need.
        "--skip",
        "real_agents",
    ]))?;
    Ok("every test marked as long".to_owned())
}
