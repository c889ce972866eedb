//! Where settings come from, in which order they win, and how a file of them is read.
//!
//! A task's own settings > flags > the plan's `[batch]` > `CF_*` > the workspace's `config.toml` > the user's >
//! defaults. A task's own are not here: they stand with the task, and the conductor puts them on top. Nothing here
//! opens the store.

mod engine;
mod layer;
mod settings;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cf_conductor::github::{self, Access};
use cf_conductor::settings::WaitForBlockers;
use cf_core::Strategy;
use toml::de::DeTable;

use crate::document::{Complaints, Document, DocumentError};
pub(crate) use layer::{KEYS, Key, Layer, Origin, Place, Scope, Setting};
pub(crate) use settings::EngineSettingError;
pub(crate) use values::{EngineName, Limit, Retries, Slots, Value, integer};

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A file is wrong.
    #[error(transparent)]
    File(#[from] DocumentError),
    /// An environment variable is wrong.
    #[error("the environment variable {name}: {problem}")]
    Environment { name: String, problem: String },
    /// An engine of a file is wrong.
    #[error(transparent)]
    Engine(#[from] EngineSettingError),
    /// The webhook cannot be used.
    #[error("{origin}: `webhook.url`: {why}")]
    Webhook { origin: String, why: String },
    /// Two settings contradict each other.
    #[error("{0}")]
    Contradiction(String),
}

/// Which file it is: a workspace's never decides where a token goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    User,
    Workspace,
}

/// The places that settings come from, besides flags and a plan.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The workspace's `config.toml`, when there is a workspace.
    pub(crate) workspace: Option<PathBuf>,
    /// The user's `config.toml`.
    pub(crate) user: Option<PathBuf>,
    /// The environment variables that name a setting.
    pub(crate) environment: Vec<(String, OsString)>,
}

impl Places {
    /// The places as the process finds them.
    pub(crate) fn of_process(workspace: Option<PathBuf>) -> Self {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with("CF_") || name == "RECONCILE_GITHUB")
            .collect();
        Self {
            workspace,
            user: user_file(),
            environment,
        }
    }

    /// Puts everything together: `flags` over `plan` over the environment over the files over the defaults.
    ///
    /// # Errors
    ///
    /// A file or a variable that is wrong, or two settings that contradict each other.
    pub(crate) fn resolve(&self, flags: Layer, plan: Layer) -> Result<Layer, ConfigError> {
        let mut layer = flags
            .over(plan)
            .over(self.environment()?)
            .over(read_file(self.workspace.as_deref(), Owner::Workspace)?)
            .over(read_file(self.user.as_deref(), Owner::User)?)
            .over(Layer::defaults());
        imply(&mut layer);
        contradictions(&layer)?;
        Ok(layer)
    }

    /// Puts together what can be used, and says what cannot: a place that is wrong says nothing at all. For showing.
    pub(crate) fn resolve_what_is_right(&self) -> (Layer, Vec<ConfigError>) {
        let mut wrong = Vec::new();
        let mut right = |read: Result<Layer, ConfigError>| {
            read.unwrap_or_else(|error| {
                wrong.push(error);
                Layer::default()
            })
        };
        let mut layer = right(self.environment())
            .over(right(read_file(
                self.workspace.as_deref(),
                Owner::Workspace,
            )))
            .over(right(read_file(self.user.as_deref(), Owner::User)))
            .over(Layer::defaults());
        imply(&mut layer);
        wrong.extend(contradictions(&layer).err());
        wrong.extend(layer.engines().err().map(ConfigError::from));
        (layer, wrong)
    }

    fn environment(&self) -> Result<Layer, ConfigError> {
        let mut layer = Layer::default();
        let mut set = |key: &Key, name: &str, value: &OsString| {
            let wrong = |problem| ConfigError::Environment {
                name: name.to_owned(),
                problem,
            };
            let text = value
                .to_str()
                .ok_or_else(|| wrong("it is not valid UTF-8".to_owned()))?;
            // An empty variable is how a shell unsets one for a single command.
            if text.is_empty() {
                return Ok(());
            }
            layer
                .set_text(key.name, text, Origin::Environment(name.to_owned()))
                .map_err(wrong)
        };
        for key in KEYS {
            let Some(variable) = key.variable() else {
                continue;
            };
            // The name that other programs use as well loses against our own.
            let other = (key.name == "reconcile_github").then_some("RECONCILE_GITHUB");
            for wanted in other.into_iter().chain([variable.as_str()]) {
                for (name, value) in &self.environment {
                    if name == wanted {
                        set(key, name, value)?;
                    }
                }
            }
        }
        Ok(layer)
    }
}

/// The user's own file: `$XDG_CONFIG_HOME/cf/config.toml`, else `~/.config/cf/config.toml`.
pub(crate) fn user_file() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))
        .map(|dir| dir.join("cf/config.toml"))
}

/// Several agents at once were asked for, so they run in parallel.
fn imply(layer: &mut Layer) {
    let Some(slots) = &layer.max_parallel else {
        return;
    };
    let strategy_is_default = layer
        .strategy
        .as_ref()
        .is_none_or(|s| s.origin == Origin::Default);
    if strategy_is_default && slots.origin != Origin::Default && slots.value.0 > 1 {
        layer.strategy = Some(Setting {
            value: Strategy::Parallel,
            origin: Origin::Implied("max_parallel"),
        });
    }
}

fn contradictions(layer: &Layer) -> Result<(), ConfigError> {
    let (Some(interval), Some(wait)) = (&layer.reconcile_interval, &layer.wait_for_blockers) else {
        return Ok(());
    };
    if interval.value.is_zero() && wait.value != WaitForBlockers::Off {
        return Err(ConfigError::Contradiction(format!(
            "wait_for_blockers ({}) needs passes, and reconcile_interval is 0 ({})",
            wait.origin, interval.origin
        )));
    }
    Ok(())
}

/// The host on which short links such as `owner/repo#12` live: the one that is asked when no other is named. A file
/// that is wrong names none; whoever needs the rest of it says so.
pub(crate) fn default_host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let own = read_file(user_file().as_deref(), Owner::User).unwrap_or_default();
        github::default_host(&Access {
            environment: std::env::vars_os().collect(),
            api_url: own.github_api_url.map(|setting| setting.value.0),
            ..Access::default()
        })
    })
}

/// Reads one file of settings; a file that does not exist says nothing.
fn read_file(path: Option<&Path>, owner: Owner) -> Result<Layer, ConfigError> {
    let Some(path) = path else {
        return Ok(Layer::default());
    };
    match Document::read(path) {
        Ok(document) => Ok(from_document(&document, owner)?),
        Err(DocumentError::Read { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            Ok(Layer::default())
        }
        Err(error) => Err(error.into()),
    }
}

fn from_document(document: &Document, owner: Owner) -> Result<Layer, DocumentError> {
    let table = document.table()?;
    let mut layer = Layer::default();
    let mut complaints = Complaints::new(document);
    let origin = |line| {
        let place = Place {
            file: Arc::from(document.name()),
            line,
        };
        match owner {
            Owner::User => Origin::User(place),
            Owner::Workspace => Origin::Workspace(place),
        }
    };
    read_keys(
        &table,
        "",
        document,
        &origin,
        owner,
        &mut layer,
        &mut complaints,
    );
    for (key, value) in &table {
        match key.get_ref().as_ref() {
            name if TABLES.contains(&name) => {
                if let Some(inner) = complaints.table(name, value) {
                    read_keys(
                        inner,
                        &format!("{name}."),
                        document,
                        &origin,
                        owner,
                        &mut layer,
                        &mut complaints,
                    );
                }
            }
            "engines" => {
                if let Some(inner) = complaints.table("engines", value) {
                    for (name, engine) in inner {
                        if let Err(problem) = EngineName::from_text(name.get_ref()) {
                            complaints.at(&name.span(), problem);
                        }
                        let place = format!("engines.{}", name.get_ref());
                        if let Some(table) = complaints.table(&place, engine) {
                            engine::check(table, &place, &mut complaints);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    complaints.finish()?;
    read_engines(document, &table, &origin, &mut layer)?;
    Ok(layer)
}

/// The tables that hold settings, beside `[engines.NAME]`.
const TABLES: [&str; 4] = ["hooks", "webhook", "git", "github"];

/// Reads the keys of one table; `prefix` is its name with a point, or nothing at the top.
fn read_keys(
    table: &DeTable<'_>,
    prefix: &str,
    document: &Document,
    origin: &dyn Fn(usize) -> Origin,
    owner: Owner,
    layer: &mut Layer,
    complaints: &mut Complaints<'_>,
) {
    let mut names: Vec<&str> = KEYS
        .iter()
        .filter_map(|key| key.name.strip_prefix(prefix))
        .filter(|name| !name.contains('.'))
        .collect();
    let place = if prefix.is_empty() {
        names.extend(TABLES);
        names.push("engines");
        "the configuration".to_owned()
    } else {
        format!("[{}]", prefix.trim_end_matches('.'))
    };
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        match KEYS.iter().find(|known| known.name == name) {
            Some(known) if known.scope == Scope::User && owner == Owner::Workspace => complaints.at(
                &key.span(),
                format!("`{name}` decides where a token goes and is read from the user's own file only"),
            ),
            Some(known) if known.scope == Scope::Own && owner == Owner::Workspace => complaints.at(
                &key.span(),
                format!(
                    "`{name}` decides where news of the work goes and is read from the user's own file and the \
                     environment only"
                ),
            ),
            Some(known) => {
                let origin = origin(document.line(key.span().start));
                if let Err(problem) = layer.set_toml(known.name, value.get_ref(), origin) {
                    complaints.at(&value.span(), format!("`{name}`: {problem}"));
                }
            }
            None if prefix.is_empty() && (TABLES.contains(&name.as_str()) || name == "engines") => {}
            None => complaints.unknown(key, &place, &names),
        }
    }
}

/// Takes over `[engines.NAME]`, whose shape was checked before.
fn read_engines(
    document: &Document,
    table: &DeTable<'_>,
    origin: &dyn Fn(usize) -> Origin,
    layer: &mut Layer,
) -> Result<(), DocumentError> {
    #[derive(serde::Deserialize)]
    struct Engines {
        #[serde(default)]
        engines: std::collections::BTreeMap<String, toml::Table>,
    }
    let Some(spans) = table
        .iter()
        .find(|(key, _)| key.get_ref().as_ref() == "engines")
        .and_then(|(_, value)| value.get_ref().as_table())
    else {
        return Ok(());
    };
    // What was read as TOML just before may still hold a number that no integer holds.
    let parsed: Engines = match toml::from_str(document.text()) {
        Ok(parsed) => parsed,
        Err(error) => {
            let mut complaints = Complaints::new(document);
            complaints.at(
                &error.span().unwrap_or(0..0),
                error
                    .message()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            );
            return complaints.finish();
        }
    };
    for (name, table) in parsed.engines {
        let line = spans
            .iter()
            .find(|(key, _)| key.get_ref().as_ref() == name)
            .map_or(1, |(key, _)| document.line(key.span().start));
        layer.engines.insert(
            name,
            Setting {
                value: table,
                origin: origin(line),
            },
        );
    }
    Ok(())
}

/// Reads the `[batch]` table of a plan: the settings of a run, by their flags' names with `_`.
pub(crate) fn from_batch_table(
    table: &DeTable<'_>,
    document: &Document,
    complaints: &mut Complaints<'_>,
) -> Layer {
    let run: Vec<&Key> = KEYS.iter().filter(|key| key.scope == Scope::Run).collect();
    let names: Vec<&str> = run.iter().map(|key| key.name).collect();
    let mut layer = Layer::default();
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let Some(known) = run.iter().find(|known| known.name == name) else {
            complaints.unknown(key, "[batch]", &names);
            continue;
        };
        let origin = Origin::Plan(Place {
            file: Arc::from(document.name()),
            line: document.line(key.span().start),
        });
        if let Err(problem) = layer.set_toml(known.name, value.get_ref(), origin) {
            complaints.at(&value.span(), format!("`{name}`: {problem}"));
        }
    }
    layer
}

#[cfg(test)]
mod tests;
