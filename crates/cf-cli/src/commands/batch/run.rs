//! `cf work batch run`, `resume`, `work start`, and the end of a batch whose conductor is gone.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cf_conductor::caller;
use cf_conductor::conductor::{
    self, BatchEnd, ConductorError, Goal, Plan as BatchPlan, Selection, Setup,
};
use cf_conductor::settings::Settings;
use cf_conductor::source::ReconcilerRegistry;
use cf_conductor::store::Store;
use cf_conductor::store::batch::BatchTask;
use cf_conductor::workspace::Workspace;
use cf_conductor::worktree::Base;
use cf_core::{Actor, BatchId, BatchStatus, TaskId, TaskLabel, TaskRef, TaskStatus};

use super::super::github;
use super::super::tasks::import_plan;
use super::super::{Ended, find_task};
use super::observer::{Deaf, Watched};
use super::refuse::{
    known_engine, nothing_planned, nothing_read, nothing_ready, refuse_agent, refuse_contradiction,
    refuse_no_rescue,
};
use super::watch::end;
use crate::args::run::{ResumeArgs, RunArgs};
use crate::args::work::StartArgs;
use crate::config::{Layer, Origin, Places, Setting};
use crate::console::{self, Console};
use crate::error::CliError;
use crate::plan::{Plan, PlanFormat};
use crate::progress::preview;
use crate::render::text;
use crate::workspace;

/// `cf work batch run`.
pub(in crate::commands) fn run(args: &RunArgs, console: &Console) -> Ended {
    match (&args.file, args.all_ready, args.tasks.as_slice()) {
        (None, false, []) => Err(CliError::usage(
            "nothing says which tasks to run",
            "name them (`cf run TASK…`), run what is ready (`cf run --all-ready`), or a plan (`cf run --file PLAN`)",
        )),
        (Some(file), _, _) => run_plan(file, args, console),
        (None, all_ready, tasks) => {
            let (workspace, store, actor) = workspace::open_to_write()?;
            let layer = resolve(Some(&workspace), args.settings.layer(), Layer::default())?;
            let selection = if all_ready {
                Selection::AllReady
            } else {
                named(&store, &actor, tasks)?
            };
            let run = Run {
                args: Mode::of(args),
                layer,
                console,
            };
            run.go(&workspace, store, &actor, &selection)
        }
    }
}

/// `cf work start`: a batch of one.
pub(in crate::commands) fn start(args: &StartArgs, console: &Console) -> Ended {
    let (workspace, store, actor) = workspace::open_to_write()?;
    let layer = resolve(Some(&workspace), args.settings.layer(), Layer::default())?;
    let selection = named(&store, &actor, std::slice::from_ref(&args.task))?;
    let run = Run {
        args: Mode {
            force: args.force,
            dry_run: false,
            from_rescue: args.from_rescue,
        },
        layer,
        console,
    };
    run.go(&workspace, store, &actor, &selection)
}

/// The tasks that the words of the command line name.
fn named(store: &Store, actor: &Actor, given: &[TaskRef]) -> Result<Selection, CliError> {
    let ids = store.read(|reader| {
        given
            .iter()
            .map(|task| find_task(reader, actor, task))
            .collect()
    })?;
    Ok(Selection::Tasks(ids))
}

pub(in crate::commands) fn resolve(
    workspace: Option<&Workspace>,
    flags: Layer,
    plan: Layer,
) -> Result<Layer, CliError> {
    Ok(Places::of_process(workspace.map(Workspace::config_file)).resolve(flags, plan)?)
}

/// A plan file is tried on a copy first: what cannot be run leaves nothing behind, not even a workspace.
fn run_plan(file: &Path, args: &RunArgs, console: &Console) -> Ended {
    let mut plan = Plan::read(file, PlanFormat::of(file))?;
    let folder = folder_of(file)?;
    workspace::refuse_unreadable(&folder)?;
    let found = Workspace::discover(&folder)?;
    let layer = resolve(
        found.as_ref(),
        args.settings.layer(),
        std::mem::take(&mut plan.batch),
    )?;
    let run = Run {
        args: Mode::of(args),
        layer,
        console,
    };
    let (actor, mut trial, would_be) = if let Some(workspace) = &found {
        let store = Store::open(workspace)?;
        (
            caller::actor(&store)?,
            store.copy_in_memory()?,
            workspace.clone(),
        )
    } else {
        caller::refuse_agent("run a batch")?;
        (Actor::Cli, Store::in_memory()?, Workspace::unmade(&folder))
    };
    refuse_agent(&actor)?;
    let imported = trial
        .write(&actor, |tx| import_plan(tx, &plan))
        .map_err(CliError::of_plan)?;
    let setup = run.setup(would_be)?;
    run.refuse_unknown_engine(&setup)?;
    for task in &plan.tasks {
        if let Some(engine) = &task.spec.engine {
            let place = format!("{}: task \"{}\": `engine`", task.place, task.spec.title);
            known_engine(&place, engine, &setup.engines)?;
        }
    }
    let tried = conductor::prepare(
        &trial,
        &setup,
        &Selection::Plan(imported.ids),
        &run.settings()?,
        args.force,
    )?;
    if args.dry_run {
        return run.show_only(&tried, &setup, &trial);
    }
    if plan.tasks.is_empty() {
        return nothing_planned(&name_of(file), console);
    }
    let workspace = if let Some(workspace) = found {
        workspace
    } else {
        let (workspace, _) = Workspace::create(&folder)?;
        tell_where(&workspace, console)?;
        workspace
    };
    let mut store = Store::open(&workspace)?;
    let imported = store.write(&actor, |tx| import_plan(tx, &plan))?;
    run.go(&workspace, store, &actor, &Selection::Plan(imported.ids))
}

/// What a plan is called where it is named.
fn name_of(file: &Path) -> String {
    if file.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    }
}

/// Where the workspace of a plan is looked for; a plan from standard input belongs to the current directory.
fn folder_of(file: &Path) -> Result<PathBuf, CliError> {
    if file.as_os_str() == "-" {
        return workspace::current_dir();
    }
    let failed = |source| CliError::File {
        what: "resolve",
        path: file.to_owned(),
        source,
    };
    let file = file.canonicalize().map_err(failed)?;
    Ok(file.parent().unwrap_or(Path::new("/")).to_owned())
}

/// A workspace that the next command would not find by itself is named.
fn tell_where(workspace: &Workspace, console: &Console) -> Result<(), CliError> {
    let here = workspace::current_dir()?;
    let here = here.canonicalize().unwrap_or(here);
    console.say(format_args!(
        "made a workspace in {}",
        text::path(workspace.root())
    ))?;
    if !here.starts_with(workspace.root()) {
        console.say(format_args!(
            "other commands find it with: cf -C {} status",
            quoted(workspace.root())
        ))?;
    }
    Ok(())
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = text::clean(&path.to_string_lossy()).into_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@%".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[derive(Clone, Copy, Debug)]
struct Mode {
    force: bool,
    dry_run: bool,
    from_rescue: bool,
}

impl Mode {
    const fn of(args: &RunArgs) -> Self {
        Self {
            force: args.force,
            dry_run: args.dry_run,
            from_rescue: args.from_rescue,
        }
    }
}

/// A run that is about to be made.
struct Run<'c> {
    args: Mode,
    layer: Layer,
    console: &'c Console,
}

impl Run<'_> {
    fn setup(&self, workspace: Workspace) -> Result<Setup, CliError> {
        setup(&self.layer, workspace)
    }

    /// The settings of the batch.
    fn settings(&self) -> Result<Settings, CliError> {
        let settings = Settings {
            from_rescue: self.args.from_rescue,
            ..self.layer.settings()
        };
        refuse_no_rescue(&settings)?;
        Ok(settings)
    }

    fn show_only(&self, plan: &BatchPlan, setup: &Setup, store: &Store) -> Ended {
        let followed = github::followed(&self.layer, setup, store, &plan.tasks, &plan.settings)?;
        if let Some(base) = &plan.base {
            warn_of_base(base, self.console);
        }
        if self.console.json {
            console::print_json(&preview::json(plan, &followed))?;
            return Ok(0);
        }
        let mut out = console::out();
        preview::write(self.console, &mut out, plan, &followed)?;
        out.flush()?;
        Ok(0)
    }

    /// The engine that a flag or a plan chooses must be there; the complaint is about the place that chose it.
    fn refuse_unknown_engine(&self, setup: &Setup) -> Result<(), CliError> {
        match &self.layer.engine {
            Some(Setting {
                value,
                origin: origin @ Origin::Flag(_),
            }) => known_engine(&origin.to_string(), &value.0, &setup.engines),
            Some(Setting {
                value,
                origin: origin @ Origin::Plan(_),
            }) => known_engine(&format!("{origin}: `engine`"), &value.0, &setup.engines),
            // A file's or the environment's matters only for a task that needs it.
            _ => Ok(()),
        }
    }

    /// Shows what the batch will do, and does it.
    fn go(
        &self,
        workspace: &Workspace,
        store: Store,
        actor: &Actor,
        selection: &Selection,
    ) -> Ended {
        refuse_agent(actor)?;
        let mut setup = self.setup(workspace.clone())?;
        self.refuse_unknown_engine(&setup)?;
        if matches!(selection, Selection::AllReady) && !self.args.dry_run {
            let counts = store.read(|reader| reader.status_counts())?;
            let ready = |(status, n): &(TaskStatus, u64)| *status == TaskStatus::Ready && *n > 0;
            if !counts.iter().any(ready) {
                return nothing_ready(&counts, self.console);
            }
        }
        let plan = conductor::prepare(
            &store,
            &setup,
            selection,
            &self.settings()?,
            self.args.force,
        )?;
        if self.args.dry_run {
            return self.show_only(&plan, &setup, &store);
        }
        let mut lost = None;
        if !self.console.json && !self.console.quiet {
            lost = unseen(self.show_only(&plan, &setup, &store))?;
        }
        if plan.order.is_empty() && !plan.left_out.is_empty() {
            return nothing_read(&plan.left_out, self.console);
        }
        for other in &plan.neighbours {
            self.console.warn(format_args!(
                "batch {} works in the same tree; agents may get in each other's way",
                other.short()
            ));
        }
        let labels = plan
            .order
            .iter()
            .map(|task| (task.id, task.label.clone()))
            .collect();
        let mut shown = Watched::new(self.console, plan.order.len() as u64, workspace, labels);
        let ended = conductor::start(&mut setup, store, &plan, &mut shown);
        let lost = lost.or(shown.finish());
        told_end(ended, lost, workspace, self.console)
    }
}

/// `cf work batch resume`.
pub(in crate::commands) fn resume(args: &ResumeArgs, console: &Console) -> Ended {
    let (workspace, store, actor) = workspace::open_to_write()?;
    refuse_agent(&actor)?;
    let id = match &args.batch {
        Some(given) => store.read(|reader| reader.find_batch(given))?,
        None => newest_unfinished(&store)?,
    };
    let (batch, tasks) =
        store.read(|reader| Ok((reader.batch(id)?, reader.batch_task_views(id)?)))?;
    let flags = args.settings.layer();
    let mut settings = batch.settings;
    flags.replace(&mut settings);
    settings.from_rescue = args.from_rescue;
    refuse_contradiction(&settings)?;
    refuse_no_rescue(&settings)?;
    let layer = resolve(Some(&workspace), flags, Layer::default())?;
    let mut setup = setup(&layer, workspace.clone())?;
    if let Some(engine) = args.settings.engine() {
        known_engine("--engine", engine, &setup.engines)?;
    }
    conductor::check_resume(&store, &setup, &settings, id, args.force)?;
    let labels = tasks
        .iter()
        .map(|view| {
            (
                view.row.task,
                TaskLabel::new(view.row.task, view.key.as_ref()),
            )
        })
        .collect();
    let mut lost = None;
    if !console.json && !console.quiet {
        let ids: Vec<_> = tasks.iter().map(|view| view.row.task).collect();
        let followed = github::followed(&layer, &setup, &store, &ids, &settings)?;
        let mut out = console::out();
        let shown = preview::write_settings(&mut out, &settings)
            .and_then(|()| preview::write_github(&mut out, &followed))
            .and_then(|()| out.flush());
        lost = unseen(shown.map_err(CliError::from))?;
    }
    let mut shown = Watched::new(console, tasks.len() as u64, &workspace, labels);
    let places: Vec<BatchTask> = tasks.into_iter().map(|view| view.row).collect();
    shown.stand(&places);
    let ended = conductor::conduct(
        &mut setup,
        store,
        id,
        &Goal::Resume(Box::new(settings), args.force),
        &mut shown,
    );
    let lost = lost.or(shown.finish());
    told_end(ended, lost, &workspace, console)
}

/// What worktrees will not have, although somebody may expect it.
fn warn_of_base(base: &Base, console: &Console) {
    if base.changed > 0 {
        console.warn(format_args!(
            "worktrees start from the commit {:.8}; {} in the checkout, and not committed, and so not in them",
            base.commit,
            match base.changed {
                1 => "1 file is changed or new".to_owned(),
                n => format!("{n} files are changed or new"),
            }
        ));
    }
    if base.has_submodules {
        console.warn(format_args!(
            "submodules are empty folders in worktrees; a task that needs one runs `git submodule update --init`"
        ));
    }
}

/// The newest batch that did not end with everything done.
fn newest_unfinished(store: &Store) -> Result<BatchId, CliError> {
    let unfinished = store.read(|reader| {
        let batches = reader.batches()?;
        let unfinished = batches
            .iter()
            .find(|batch| batch.status != BatchStatus::Completed);
        Ok(unfinished.map(|batch| batch.id))
    })?;
    unfinished.ok_or_else(|| {
        CliError::refused(
            "there is no batch to go on with",
            "`cf work batch list` shows them; `--force` with an ID runs one again",
        )
    })
}

/// Lets what has ended be settled, and the sources' findings be applied, in a batch whose conductor is gone; nothing of
/// it is started. With a list, only these tasks are looked after. What a source of `setup` was told just before is as
/// fresh here as it was then.
pub(in crate::commands) fn finish_pass(
    setup: &mut Setup,
    id: BatchId,
    only: Option<Vec<TaskId>>,
    console: &Console,
) -> Result<(), CliError> {
    let store = Store::open(&setup.workspace)?;
    let tasks = store.read(|reader| reader.batch_task_views(id))?;
    let labels = tasks
        .iter()
        .map(|view| {
            (
                view.row.task,
                TaskLabel::new(view.row.task, view.key.as_ref()),
            )
        })
        .collect();
    let mut shown = Watched::new(
        &console.without_json(),
        tasks.len() as u64,
        &setup.workspace,
        labels,
    );
    let ended = conductor::conduct(setup, store, id, &Goal::Pass(only), &mut shown);
    if let Some(error) = shown.finish() {
        console.tell_of_lost_output(&error);
    }
    ended?;
    Ok(())
}

/// What a conductor needs, with the settings that the workspace has now.
pub(in crate::commands) fn setup_of(workspace: &Workspace) -> Result<Setup, CliError> {
    setup(
        &resolve(Some(workspace), Layer::default(), Layer::default())?,
        workspace.clone(),
    )
}

/// Ends a batch whose conductor is gone and that was told to stop: what of it lives is stopped.
pub(super) fn finish_off(
    workspace: &Workspace,
    store: Store,
    id: BatchId,
    stop: cf_conductor::store::batch::Stop,
) -> Result<BatchEnd, CliError> {
    Ok(conductor::conduct(
        &mut setup_of(workspace)?,
        store,
        id,
        &Goal::Stop(stop),
        &mut Deaf,
    )?)
}

/// The same, with settings that are read already.
pub(in crate::commands) fn setup(layer: &Layer, workspace: Workspace) -> Result<Setup, CliError> {
    let engines = layer.engines().map_err(crate::config::ConfigError::from)?;
    // Without `/proc` it is not to be found; no batch is run then, and nothing else needs it.
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("cf"));
    let mut registry = ReconcilerRegistry::default();
    let github = github::source(layer);
    if let Some(source) = &github {
        let mut settings = layer.settings();
        if settings.reconcile_interval.is_zero() {
            // Switched off is what a batch does by itself, not what a person asks for.
            settings.reconcile_interval = Settings::default().reconcile_interval;
        }
        source.configure(&settings);
        registry.push(Box::new(source.reconciler()));
    }
    Ok(Setup {
        workspace,
        engines,
        registry,
        github,
        hooks: layer.hooks()?,
        environment: std::env::vars_os().collect(),
        program,
    })
}

/// Tells how the batch ended, and that the output lacks some of what was said, if it does.
fn told_end(
    ended: Result<BatchEnd, ConductorError>,
    lost: Option<io::Error>,
    workspace: &Workspace,
    console: &Console,
) -> Ended {
    let told = ended.map_err(CliError::from).and_then(|ended| {
        let store = Store::open_to_read(workspace)?;
        let last = unseen(end(&store, workspace, ended.batch, console))?;
        Ok((ended.exit_code, last))
    });
    let (code, last) = match told {
        Ok((code, last)) => (Ok(code), last),
        Err(error) => (Err(error), None),
    };
    if let Some(error) = lost.or(last) {
        console.tell_of_lost_output(&error);
    }
    code
}

/// A batch runs, and ends with its own exit code, although nobody reads what is said about it: the reader may have
/// closed the pipe, and a terminal may be gone. Why it could not be said is returned.
fn unseen<T>(told: Result<T, CliError>) -> Result<Option<io::Error>, CliError> {
    match told {
        Ok(_) | Err(CliError::Closed) => Ok(None),
        Err(CliError::Output(error)) => Ok(Some(error)),
        Err(error) => Err(error),
    }
}
