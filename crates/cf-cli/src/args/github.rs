//! `cf github …` and `cf pr …`.

use cf_core::{Repo, TaskRef};
use clap::{Args, Subcommand, ValueEnum};

use super::values::whole_number;

// `cf github …`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum GithubCommand {
    /// Make tasks from the issues of a repository, or update those that were made
    #[command(
        after_help = "A second import updates titles and texts by key (REPO-NUMBER) and leaves statuses alone. Issues by \
                      authors who are not owner, member or collaborator become BACKLOG.\n\nExamples:\n  \
                      cf github import octocat/hello-world --label bug --limit 20\n  \
                      cf github import octocat/hello-world --milestone v1.0 --assignee @me"
    )]
    Import(ImportArgs),
    /// Show where the token comes from (never the token), the rate limit, and whether GitHub is asked
    #[command(after_help = "Shows what is known; asks nothing over the network.")]
    Status,
}

// `cf github import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The repository, as OWNER/REPO
    #[arg(value_name = "OWNER/REPO", value_parser = repository)]
    pub(crate) repo: Repo,
    /// Only issues with this label; several must all be there
    #[arg(long, value_name = "LABEL")]
    pub(crate) label: Vec<String>,
    /// Only issues of this milestone: its title or number, or `*` for any
    #[arg(long, value_name = "MILESTONE")]
    pub(crate) milestone: Option<String>,
    /// Only issues assigned to this account: a login, `@me`, or `*` for anybody
    #[arg(long, value_name = "LOGIN")]
    pub(crate) assignee: Option<String>,
    /// Which issues
    #[arg(long, value_name = "STATE", default_value = "open")]
    pub(crate) state: State,
    /// At most so many
    #[arg(long, value_name = "N", value_parser = limit)]
    pub(crate) limit: Option<usize>,
}

fn repository(text: &str) -> Result<Repo, String> {
    text.parse()
        .map_err(|error: cf_core::LinkError| format!("{}, such as octocat/hello-world", error.why))
}

fn limit(text: &str) -> Result<usize, String> {
    whole_number(text, 1, 1_000_000)
}

/// Which issues are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    // The words explain themselves; documentation would put a line of its own into every help text.
    Open,
    Closed,
    All,
}

// `cf pr …`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PrCommand {
    /// Tie a task to pull requests
    #[command(
        after_help = "When the pull request is merged, the task is DONE; when it is closed without that, the task fails.\n\n\
                      Example: cf pr link parser octocat/hello-world#13"
    )]
    Link(PrLinkArgs),
}

// `cf pr link`.
#[derive(Debug, Args)]
pub(crate) struct PrLinkArgs {
    /// The task
    pub(crate) task: TaskRef,
    /// The pull requests, as OWNER/REPO#NUMBER or by their addresses
    #[arg(value_name = "PR", required = true)]
    pub(crate) prs: Vec<String>,
}
