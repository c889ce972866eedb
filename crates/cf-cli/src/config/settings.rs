//! From settings as they were written to what the conductor takes.

use std::collections::BTreeMap;

use cf_conductor::engine::{EngineConfig, EngineConfigError, EngineName, Engines};
use cf_conductor::github::{Access, GithubSource};
use cf_conductor::hooks::{Hooks, SECRET_VARIABLE, Webhook};
use cf_conductor::settings::{self as conductor, GitSettings, GithubSettings, Settings};
use cf_core::Strategy;

use super::ConfigError;
use super::layer::{Layer, Setting, known};
use super::values::{ClosedUnmerged, CommentsFrom, ShellCommand, TokenFrom};

/// Settings that make no engine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineSettingError {
    /// The table cannot be read.
    #[error("{place}: [engines.{name}]: {problem}")]
    Table {
        place: String,
        name: String,
        problem: String,
    },
    /// The table can be read, and what it says makes no engine.
    #[error("{place}: {source}")]
    Engine {
        place: String,
        #[source]
        source: EngineConfigError,
    },
}

impl Layer {
    /// The settings of a batch.
    ///
    /// # Panics
    ///
    /// On a layer that the defaults are not below.
    pub(crate) fn settings(&self) -> Settings {
        let strategy = known(self.strategy.as_ref());
        let log_cap = known(self.log_cap.as_ref()).0;
        Settings {
            strategy,
            max_parallel: match strategy {
                Strategy::Serial => 1,
                Strategy::Parallel => known(self.max_parallel.as_ref()).0 as usize,
            },
            on_failure: known(self.on_failure.as_ref()),
            retry: known(self.retry.as_ref()).0,
            retry_delay: known(self.retry_delay.as_ref()),
            timeout: self.timeout.as_ref().map(|s| s.value.0),
            stall_timeout: self.stall_timeout.as_ref().map(|s| s.value.0),
            kill_grace: known(self.kill_grace.as_ref()),
            ask_grace: known(self.ask_grace.as_ref()),
            reconcile_interval: known(self.reconcile_interval.as_ref()),
            wait_for_blockers: known(self.wait_for_blockers.as_ref()),
            engine: self.engine.as_ref().map(|s| s.value.0.clone()),
            isolation: known(self.isolation.as_ref()),
            leftovers: known(self.leftovers.as_ref()),
            keep: known(self.keep.as_ref()),
            // What went wrong usually stands at the end.
            log_head_bytes: log_cap / 4,
            log_tail_bytes: log_cap - log_cap / 4,
            github: GithubSettings {
                closed_unmerged: match known(self.github_closed_unmerged.as_ref()) {
                    ClosedUnmerged::Fail => conductor::ClosedUnmerged::Fail,
                    ClosedUnmerged::Block => conductor::ClosedUnmerged::Block,
                    ClosedUnmerged::Ignore => conductor::ClosedUnmerged::Ignore,
                },
                settle: known(self.github_settle.as_ref()),
                wait: known(self.github_wait.as_ref()),
                comments_from: match known(self.github_comments_from.as_ref()) {
                    CommentsFrom::Trusted => conductor::CommentsFrom::Members,
                    CommentsFrom::Anyone => conductor::CommentsFrom::Anyone,
                },
            },
            git: GitSettings {
                author: self.git_author.as_ref().map(|s| s.value.0.clone()),
                timeout: known(self.git_timeout.as_ref()).0,
            },
            from_rescue: false,
        }
    }

    /// Whose GitHub may be asked, and how. Whether it is, `reconcile_github` says.
    ///
    /// # Panics
    ///
    /// On a layer that the defaults are not below.
    pub(crate) fn github(&self) -> GithubSource {
        GithubSource::new(&Access {
            environment: std::env::vars_os().collect(),
            api_url: self.github_api_url.as_ref().map(|s| s.value.0.clone()),
            hosts: known(self.github_hosts.as_ref()),
            ask_gh: known(self.github_token.as_ref()) == TokenFrom::Gh,
            reserve_percent: known(self.github_reserve.as_ref()).0,
        })
    }

    /// Who is told what happens in a batch.
    ///
    /// # Errors
    ///
    /// The address of the webhook cannot be used.
    ///
    /// # Panics
    ///
    /// On a layer that the defaults are not below.
    pub(crate) fn hooks(&self) -> Result<Hooks, ConfigError> {
        let command =
            |setting: &Option<Setting<ShellCommand>>| setting.as_ref().map(|s| s.value.0.clone());
        let webhook = self.webhook_url.as_ref().map(|setting| {
            let secret = std::env::var(SECRET_VARIABLE).ok();
            Webhook::new(&setting.value.0, secret.as_deref()).map_err(|why| ConfigError::Webhook {
                origin: setting.origin.to_string(),
                why,
            })
        });
        Ok(Hooks {
            on_batch_end: command(&self.hooks_on_batch_end),
            on_blocked: command(&self.hooks_on_blocked),
            on_task_end: command(&self.hooks_on_task_end),
            limit: known(self.hooks_timeout.as_ref()).0,
            webhook: webhook.transpose()?,
        })
    }

    /// Replaces in the stored settings of a batch what this layer says.
    pub(crate) fn replace(&self, settings: &mut Settings) {
        macro_rules! replace {
            ($( $field:ident ),+) => { $( if let Some(setting) = &self.$field { settings.$field = setting.value.clone(); } )+ };
        }
        replace!(
            on_failure,
            retry_delay,
            kill_grace,
            isolation,
            reconcile_interval,
            wait_for_blockers
        );
        if let Some(retry) = &self.retry {
            settings.retry = retry.value.0;
        }
        if let Some(limit) = &self.timeout {
            settings.timeout = Some(limit.value.0);
        }
        if let Some(limit) = &self.stall_timeout {
            settings.stall_timeout = Some(limit.value.0);
        }
        if let Some(engine) = &self.engine {
            settings.engine = Some(engine.value.0.clone());
        }
        if let Some(slots) = &self.max_parallel {
            settings.max_parallel = slots.value.0 as usize;
            if settings.max_parallel > 1 {
                settings.strategy = Strategy::Parallel;
            }
        }
        if let Some(strategy) = &self.strategy {
            settings.strategy = strategy.value;
        }
    }

    /// Every engine: those built in, and those of the files.
    ///
    /// # Errors
    ///
    /// A table that makes no engine, with its place.
    pub(crate) fn engines(&self) -> Result<Engines, EngineSettingError> {
        let mut configs: BTreeMap<EngineName, EngineConfig> = BTreeMap::new();
        for (name, setting) in &self.engines {
            let place = setting.origin.to_string();
            let table = |problem: String| EngineSettingError::Table {
                place: place.clone(),
                name: name.clone(),
                problem,
            };
            let parsed: EngineName = name.parse().map_err(|error| table(format!("{error}")))?;
            let config: EngineConfig = setting
                .value
                .clone()
                .try_into()
                .map_err(|error: toml::de::Error| table(error.message().to_owned()))?;
            // One at a time, so that the complaint has the place of the table that it is about.
            config
                .engine(&parsed)
                .map_err(|source| EngineSettingError::Engine { place, source })?;
            configs.insert(parsed, config);
        }
        Ok(Engines::new(&configs).expect("each of them was tried before"))
    }
}
