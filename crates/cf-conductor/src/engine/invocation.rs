//! The exact command of one attempt.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Engine, EngineName, Permissions, PromptBy};

/// The longest single argument that is put on a command line. Linux refuses one of 128 KiB (`MAX_ARG_STRLEN`).
const LONGEST_ARGUMENT_BYTES: usize = 100 * 1024;

/// What one attempt adds to its engine.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The task's script; only for the engine that runs scripts.
    pub script: Option<&'a str>,
    /// The task's model.
    pub model: Option<&'a str>,
    /// The session of an earlier attempt that is to be continued.
    pub resume: Option<&'a str>,
    /// The prompt.
    pub prompt: &'a str,
    /// The file that holds the prompt.
    pub prompt_file: &'a Path,
    /// Where a script that cannot go on the command line is to be written.
    pub script_file: &'a Path,
    /// The workspace's `.cf` folder.
    pub state: &'a Path,
}

/// Where standard input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinFrom {
    /// Nowhere: end of file at once.
    Null,
    /// The file that holds the prompt.
    PromptFile,
}

/// The command of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The program, as a name to be looked for on the `PATH` or as a path, and its arguments.
    pub argv: Vec<OsString>,
    /// Variables of the engine and of its permissions.
    pub env: BTreeMap<String, String>,
    /// Standard input.
    pub stdin: StdinFrom,
    /// A file that must be written before the start, readable by the owner alone.
    pub file: Option<ScriptFile>,
}

/// A script that is too long for the command line, or that names its own interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFile {
    /// Where it goes.
    pub path: PathBuf,
    /// What it holds.
    pub body: String,
}

/// A task that this engine cannot be started for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvocationError {
    /// The engine runs scripts and the task has none.
    #[error("engine `shell` needs a script: give the task `run`, or choose an agent")]
    NoScript,
    /// The task has a script and the engine is an agent.
    #[error("engine `{engine}` is an agent and does not run the task's script")]
    ScriptForAgent {
        /// The engine.
        engine: EngineName,
    },
    /// A NUL byte, which no argument can hold.
    #[error("the {what} contains a NUL byte")]
    Nul {
        /// Where.
        what: &'static str,
    },
    /// A `#!` line without a program.
    #[error("the script's first line `#!` names no interpreter")]
    NoInterpreter,
    /// The engine cannot be told a model.
    #[error("engine `{engine}` cannot be told a model: set `model_flag` in its config")]
    NoModelFlag {
        /// The engine.
        engine: EngineName,
    },
    /// A text that cannot be the name of a model.
    #[error("{model:?} is not the name of a model")]
    Model {
        /// What was given, cut to 80 characters.
        model: String,
    },
    /// The engine cannot continue an earlier session.
    #[error("engine `{engine}` cannot continue an earlier session")]
    NoResume {
        /// The engine.
        engine: EngineName,
    },
    /// The engine takes its prompt as an argument, and this one is too long for that.
    #[error(
        "the prompt has {bytes} bytes, too long for an argument of engine `{engine}`: set `prompt = \"stdin\"` or `\"file\"`"
    )]
    PromptTooLong {
        /// The engine.
        engine: EngineName,
        /// The prompt's length.
        bytes: usize,
    },
    /// The program has no words for these permissions.
    #[error("engine `{engine}` cannot be confined to `{permissions}`")]
    NoGrant {
        /// The engine.
        engine: EngineName,
        /// What was asked for.
        permissions: Permissions,
    },
}

impl Engine {
    /// The command of one attempt.
    ///
    /// # Errors
    ///
    /// The task and the engine do not fit: no script, no way to name a model or a session, a prompt that is too long.
    pub fn invocation(&self, start: &Start<'_>) -> Result<Invocation, InvocationError> {
        if self.runs_scripts() {
            let script = start.script.ok_or(InvocationError::NoScript)?;
            let mut invocation = script_invocation(script, start.script_file)?;
            invocation.env = self.env.clone();
            return Ok(invocation);
        }
        if start.script.is_some() {
            return Err(InvocationError::ScriptForAgent {
                engine: self.name.clone(),
            });
        }
        let mut env = self.env.clone();
        let mut words: Vec<String> = self.command.clone();
        let mut filled = |template: &[String], place: &str, value: &str| {
            words.extend(template.iter().map(|word| word.replace(place, value)));
        };
        match self.grants.get(self.permissions) {
            Some(grant) => {
                filled(&grant.args, "{state}", &start.state.to_string_lossy());
                env.extend(grant.env.clone());
            }
            None if self.permissions == Permissions::All => {}
            None => {
                return Err(InvocationError::NoGrant {
                    engine: self.name.clone(),
                    permissions: self.permissions,
                });
            }
        }
        if let Some(model) = start.model {
            self.check_model(model)?;
            filled(&self.model_args, "{model}", model);
        }
        words.extend(self.extra_args.iter().cloned());
        if let Some(session) = start.resume {
            // An id from an agent's own output: it must not be taken for an option.
            let odd = session.is_empty() || session.starts_with('-') || session.contains('\0');
            if self.resume_args.is_empty() || odd {
                return Err(InvocationError::NoResume {
                    engine: self.name.clone(),
                });
            }
            let resume = self.resume_args.iter();
            words.extend(resume.map(|word| word.replace("{session}", session)));
        }
        words.extend(self.tail.iter().cloned());
        let (argv, stdin) = self.with_prompt(words, start)?;
        Ok(Invocation {
            argv,
            env,
            stdin,
            file: None,
        })
    }

    fn check_model(&self, model: &str) -> Result<(), InvocationError> {
        if self.model_args.is_empty() {
            return Err(InvocationError::NoModelFlag {
                engine: self.name.clone(),
            });
        }
        let odd = model.is_empty()
            || model.len() > 200
            || model.starts_with('-')
            || model.chars().any(|c| c.is_control() || c.is_whitespace());
        if odd {
            return Err(InvocationError::Model {
                model: model.chars().take(80).collect(),
            });
        }
        Ok(())
    }

    fn with_prompt(
        &self,
        words: Vec<String>,
        start: &Start<'_>,
    ) -> Result<(Vec<OsString>, StdinFrom), InvocationError> {
        let (place, value, stdin) = match self.prompt {
            PromptBy::Stdin => {
                let argv = words.into_iter().map(OsString::from).collect();
                return Ok((argv, StdinFrom::PromptFile));
            }
            PromptBy::File => (
                "{prompt_file}",
                start.prompt_file.as_os_str().to_owned(),
                StdinFrom::Null,
            ),
            PromptBy::Argument => {
                if start.prompt.len() > LONGEST_ARGUMENT_BYTES {
                    return Err(InvocationError::PromptTooLong {
                        engine: self.name.clone(),
                        bytes: start.prompt.len(),
                    });
                }
                if start.prompt.contains('\0') {
                    return Err(InvocationError::Nul { what: "prompt" });
                }
                ("{prompt}", OsString::from(start.prompt), StdinFrom::Null)
            }
        };
        let mut argv = Vec::with_capacity(words.len() + 1);
        let mut placed = false;
        for word in words {
            match word.split_once(place) {
                Some((before, after)) => {
                    placed = true;
                    let mut whole = OsString::from(before);
                    whole.push(&value);
                    whole.push(after);
                    argv.push(whole);
                }
                None => argv.push(OsString::from(word)),
            }
        }
        if !placed {
            argv.push(value);
        }
        Ok((argv, stdin))
    }
}

/// The command that runs a script: a task's `run`, or its `verify`.
///
/// It is `/bin/sh -c SCRIPT`. A script that begins with `#!` is run by that interpreter, with at most one argument, as
/// the kernel would; it and a script of more than 100 KiB go to `path`, which the caller writes.
///
/// # Errors
///
/// The script holds a NUL byte, or its `#!` names nothing.
pub fn script_invocation(script: &str, path: &Path) -> Result<Invocation, InvocationError> {
    if script.contains('\0') {
        return Err(InvocationError::Nul { what: "script" });
    }
    let mut argv = if let Some(rest) = script.strip_prefix("#!") {
        interpreter(rest)?
    } else if script.len() > LONGEST_ARGUMENT_BYTES {
        vec![OsString::from("/bin/sh")]
    } else {
        // A first word such as `-x` would be taken for an option of the shell.
        let guard = if script.starts_with(['-', '+']) {
            " "
        } else {
            ""
        };
        return Ok(Invocation {
            argv: vec![
                "/bin/sh".into(),
                "-c".into(),
                format!("{guard}{script}").into(),
            ],
            env: BTreeMap::new(),
            stdin: StdinFrom::Null,
            file: None,
        });
    };
    // The interpreter reads the file: it need not be executable, and a folder mounted `noexec` does not matter.
    argv.push(path.as_os_str().to_owned());
    Ok(Invocation {
        argv,
        env: BTreeMap::new(),
        stdin: StdinFrom::Null,
        file: Some(ScriptFile {
            path: path.to_owned(),
            body: script.to_owned(),
        }),
    })
}

/// The words of a `#!` line: the program, and everything behind it as one argument.
fn interpreter(rest: &str) -> Result<Vec<OsString>, InvocationError> {
    let line = rest.lines().next().unwrap_or_default();
    let blank = [' ', '\t', '\r'];
    let line = line.trim_matches(blank);
    let (program, argument) = line
        .split_once(blank)
        .map_or((line, ""), |(program, argument)| {
            (program, argument.trim_matches(blank))
        });
    if program.is_empty() {
        return Err(InvocationError::NoInterpreter);
    }
    let mut argv = vec![OsString::from(program)];
    if !argument.is_empty() {
        argv.push(OsString::from(argument));
    }
    Ok(argv)
}
