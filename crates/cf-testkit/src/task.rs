//! A task that a test adds through `cf tasks add`.

use crate::Workspace;

/// A task, not added yet. Its key is its title.
pub struct NewTask<'w> {
    workspace: &'w Workspace,
    key: String,
    args: Vec<String>,
}

impl<'w> NewTask<'w> {
    pub(crate) fn new(workspace: &'w Workspace, key: &str) -> Self {
        Self {
            workspace,
            key: key.to_owned(),
            args: Vec::new(),
        }
    }

    fn arg(mut self, flag: &str, value: &str) -> Self {
        self.args.push(flag.to_owned());
        self.args.push(value.to_owned());
        self
    }

    /// The script that is its agent.
    pub fn run(self, script: &str) -> Self {
        self.arg("--run", script)
    }

    /// The command that checks its work.
    pub fn verify(self, command: &str) -> Self {
        self.arg("--verify", command)
    }

    /// A task that must be done first.
    pub fn after(self, key: &str) -> Self {
        self.arg("--depends-on", key)
    }

    /// What is to be done.
    pub fn description(self, text: &str) -> Self {
        self.arg("--description", text)
    }

    /// Its urgency; 0 comes first.
    pub fn priority(self, priority: u32) -> Self {
        self.arg("--priority", &priority.to_string())
    }

    /// Its engine.
    pub fn engine(self, engine: &str) -> Self {
        self.arg("--engine", engine)
    }

    /// Adds it, and returns its full id.
    #[track_caller]
    pub fn add(self) -> String {
        let mut args = vec!["tasks", "add", &self.key, "--key", &self.key, "--json"];
        args.extend(self.args.iter().map(String::as_str));
        let task = self.workspace.cf(args).json();
        let id = task["id"]
            .as_str()
            .expect("a task has an id as text")
            .to_owned();
        self.workspace.remember(&self.key, &id);
        id
    }
}
