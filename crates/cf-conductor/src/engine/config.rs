//! `[engines.NAME]` of the config: parts of a built-in engine replaced, or an engine of one's own.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use cf_core::parse_duration;
use serde::{Deserialize, Deserializer, de};

use super::{
    Engine, EngineName, Grant, Grants, Home, Leftovers, Permissions, PromptBy, SuccessRule,
};

/// One `[engines.NAME]` table. What is not given is taken from the built-in engine of that name, or of `base`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineConfig {
    /// The built-in engine that this one begins as; by default the one of the same name.
    pub base: Option<EngineName>,
    /// The program and its first arguments. With a built-in engine: replaces the whole command.
    pub command: Option<Vec<String>>,
    /// The path or name of the program alone; its arguments stay.
    pub program: Option<String>,
    /// Further arguments.
    pub args: Option<Vec<String>>,
    /// How the prompt reaches it.
    pub prompt: Option<PromptBy>,
    /// Variables, added to those of the built-in engine.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of variables that it gets although they hold tokens or begin with `CF_`.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// What makes its end a success.
    pub success: Option<SuccessRule>,
    /// What it may do.
    pub permissions: Option<Permissions>,
    /// How it is told so; replaces the built-in words of the levels that are given.
    #[serde(default)]
    pub grants: GrantsConfig,
    /// The flag that is followed by the model's name, such as `--model`; or words that contain `{model}`.
    pub model_flag: Option<Words>,
    /// The flag that is followed by the id of a session to be continued; or words that contain `{session}`; or no
    /// words, and sessions are not continued.
    pub resume_flag: Option<Words>,
    /// Which home folder it sees.
    pub home: Option<Home>,
    /// The time limit of an attempt where nobody sets one.
    pub timeout: Option<TimeLimit>,
    /// What happens to processes that it leaves behind.
    pub leftovers: Option<Leftovers>,
    /// Names of processes that are left alone.
    pub keep: Option<Vec<String>>,
}

/// `grants` of an engine in the config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantsConfig {
    /// For `permissions = "all"`.
    pub all: Option<GrantConfig>,
    /// For `permissions = "edit"`.
    pub edit: Option<GrantConfig>,
    /// For `permissions = "read"`.
    pub read: Option<GrantConfig>,
}

/// The words of one level of permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantConfig {
    /// Arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// One word or several, as the config may write them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Words {
    /// A single word.
    One(String),
    /// Several.
    Several(Vec<String>),
}

/// A time limit, or the word `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// No limit.
    None,
    /// At most this long.
    After(Duration),
}

impl TimeLimit {
    /// The limit as the rest of the program takes it.
    pub const fn duration(self) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::After(limit) => Some(limit),
        }
    }
}

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = TimeLimit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"30m\", a number of seconds, or \"none\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TimeLimit, E> {
                if text == "none" {
                    return Ok(TimeLimit::None);
                }
                match parse_duration(text).map_err(E::custom)? {
                    Duration::ZERO => Err(E::custom(
                        "a time limit of 0 ends every attempt at once; write \"none\" for no limit",
                    )),
                    limit => Ok(TimeLimit::After(limit)),
                }
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<TimeLimit, E> {
                self.visit_str(&seconds.to_string())
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<TimeLimit, E> {
                self.visit_str(&seconds.to_string())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// An `[engines.NAME]` table that makes no engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineConfigError {
    /// Neither built in nor given a command.
    #[error("engine `{name}` has no command and is not built in; built in are {built_in}")]
    NoCommand {
        /// The engine.
        name: EngineName,
        /// The names of the built-in ones.
        built_in: String,
    },
    /// `base` names no built-in engine.
    #[error(
        "engine `{name}` has the base `{base}`, which is not built in; built in are {built_in}"
    )]
    UnknownBase {
        /// The engine.
        name: EngineName,
        /// What `base` says.
        base: EngineName,
        /// The names of the built-in ones.
        built_in: String,
    },
    /// Permissions that the program has no words for.
    #[error(
        "engine `{name}` cannot be confined to `{permissions}`: say how, with `grants.{permissions} = {{ args = […] }}`"
    )]
    NoGrant {
        /// The engine.
        name: EngineName,
        /// What was asked for.
        permissions: Permissions,
    },
    /// A setting that the engine that runs scripts does not have.
    #[error("engine `shell` runs the task's own script and has no `{field}`")]
    NotForShell {
        /// The setting.
        field: &'static str,
    },
    /// A variable's name that no environment can hold, or a value with a NUL byte.
    #[error("engine `{name}` sets the variable {variable:?}, which no environment can hold")]
    Variable {
        /// The engine.
        name: EngineName,
        /// The variable's name.
        variable: String,
    },
    /// A word of the command is empty or holds a NUL byte.
    #[error("engine `{name}` has no usable program name in `{field}`")]
    Program {
        /// The engine.
        name: EngineName,
        /// The setting.
        field: &'static str,
    },
}

impl EngineConfig {
    /// The engine that this table describes.
    ///
    /// # Errors
    ///
    /// No command and not built in, permissions without words for them, settings that `shell` does not have, or
    /// variables that cannot be set.
    pub fn engine(&self, name: &EngineName) -> Result<Engine, EngineConfigError> {
        let mut engine = self.beginning(name)?;
        if engine.name == EngineName::shell() {
            self.check_shell()?;
        }
        if let Some(command) = &self.command {
            engine.command.clone_from(command);
            // The last words belong to the command that is replaced.
            engine.tail.clear();
        }
        for (field, word) in [
            ("command", engine.command.first()),
            ("program", self.program.as_ref()),
        ] {
            // Only `shell` has no command, and there no program can be given either.
            let missing = field == "command" && name != &EngineName::shell();
            if word.map_or(missing, |word| word.is_empty() || word.contains('\0')) {
                return Err(EngineConfigError::Program {
                    name: name.clone(),
                    field,
                });
            }
        }
        if let (Some(program), Some(first)) = (&self.program, engine.command.first_mut()) {
            first.clone_from(program);
        }
        set(&mut engine.extra_args, self.args.as_ref());
        set(&mut engine.prompt, self.prompt.as_ref());
        set(&mut engine.success, self.success.as_ref());
        set(&mut engine.permissions, self.permissions.as_ref());
        set(&mut engine.home, self.home.as_ref());
        set(&mut engine.leftovers, self.leftovers.as_ref());
        set(&mut engine.keep, self.keep.as_ref());
        engine.env.extend(self.env.clone());
        engine.pass_env.extend(self.pass_env.iter().cloned());
        // What the config passes on by name is wanted, whatever the preset thinks of it.
        engine
            .env_remove
            .retain(|name| !self.pass_env.contains(name));
        self.grants.apply(&mut engine.grants);
        if let Some(limit) = self.timeout {
            engine.default_timeout = limit.duration();
        }
        if let Some(words) = &self.model_flag {
            engine.model_args = words.with("{model}");
        }
        if let Some(words) = &self.resume_flag {
            engine.resume_args = words.with("{session}");
        }
        check(&engine)?;
        Ok(engine)
    }

    fn beginning(&self, name: &EngineName) -> Result<Engine, EngineConfigError> {
        if let Some(base) = &self.base {
            let mut engine = Engine::preset(base.as_str())
                .filter(|engine| !engine.runs_scripts())
                .ok_or_else(|| EngineConfigError::UnknownBase {
                    name: name.clone(),
                    base: base.clone(),
                    built_in: built_in(),
                })?;
            engine.name = name.clone();
            return Ok(engine);
        }
        if let Some(engine) = Engine::preset(name.as_str()) {
            return Ok(engine);
        }
        if self.command.as_ref().is_none_or(Vec::is_empty) {
            return Err(EngineConfigError::NoCommand {
                name: name.clone(),
                built_in: built_in(),
            });
        }
        Ok(Engine::plain(name.clone()))
    }

    /// `shell` takes what concerns the process, not what concerns a command line that it does not have.
    fn check_shell(&self) -> Result<(), EngineConfigError> {
        let given = [
            ("base", self.base.is_some()),
            ("command", self.command.is_some()),
            ("program", self.program.is_some()),
            ("args", self.args.is_some()),
            ("prompt", self.prompt.is_some()),
            ("success", self.success.is_some()),
            ("permissions", self.permissions.is_some()),
            ("grants", self.grants != GrantsConfig::default()),
            ("model_flag", self.model_flag.is_some()),
            ("resume_flag", self.resume_flag.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((field, _)) => Err(EngineConfigError::NotForShell { field }),
            None => Ok(()),
        }
    }
}

fn set<T: Clone>(place: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        place.clone_from(value);
    }
}

fn check(engine: &Engine) -> Result<(), EngineConfigError> {
    let confined = engine.permissions != Permissions::All;
    if confined && engine.grants.get(engine.permissions).is_none() {
        return Err(EngineConfigError::NoGrant {
            name: engine.name.clone(),
            permissions: engine.permissions,
        });
    }
    let grants = [&engine.grants.all, &engine.grants.edit, &engine.grants.read];
    let variables = engine
        .env
        .iter()
        .chain(grants.into_iter().flatten().flat_map(|grant| &grant.env));
    for (name, value) in variables {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(EngineConfigError::Variable {
                name: engine.name.clone(),
                variable: name.clone(),
            });
        }
    }
    Ok(())
}

fn built_in() -> String {
    Engine::presets()
        .map(|engine| engine.name.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

impl GrantsConfig {
    fn apply(&self, grants: &mut Grants) {
        for (place, given) in [
            (&mut grants.all, &self.all),
            (&mut grants.edit, &self.edit),
            (&mut grants.read, &self.read),
        ] {
            if let Some(given) = given {
                *place = Some(Grant {
                    args: given.args.clone(),
                    env: given.env.clone(),
                    reaches_cf: true,
                });
            }
        }
    }
}

impl Words {
    /// The words, with `place` behind them unless it stands among them.
    fn with(&self, place: &str) -> Vec<String> {
        let mut words = match self {
            Self::One(word) => vec![word.clone()],
            // No words: the program cannot be told, or shall not.
            Self::Several(words) if words.is_empty() => return Vec::new(),
            Self::Several(words) => words.clone(),
        };
        if !words.iter().any(|word| word.contains(place)) {
            words.push(place.to_owned());
        }
        words
    }
}

/// Every engine of a workspace: the built-in ones as the config changes them, and the config's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engines(BTreeMap<EngineName, Engine>);

impl Engines {
    /// The built-in engines with `configs` applied.
    ///
    /// # Errors
    ///
    /// The first table that makes no engine.
    pub fn new(configs: &BTreeMap<EngineName, EngineConfig>) -> Result<Self, EngineConfigError> {
        let mut engines: BTreeMap<_, _> = Engine::presets()
            .map(|engine| (engine.name.clone(), engine))
            .collect();
        for (name, config) in configs {
            engines.insert(name.clone(), config.engine(name)?);
        }
        Ok(Self(engines))
    }

    /// The engine of this name.
    pub fn get(&self, name: &EngineName) -> Option<&Engine> {
        self.0.get(name)
    }

    /// Every engine, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Engine> {
        self.0.values()
    }
}

impl Default for Engines {
    fn default() -> Self {
        Self(
            Engine::presets()
                .map(|engine| (engine.name.clone(), engine))
                .collect(),
        )
    }
}
