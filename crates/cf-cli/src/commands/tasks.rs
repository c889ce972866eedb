//! `cf tasks …`.

mod change;
mod plan_file;
mod show;

use super::Ended;
use crate::args::tasks::{SetCommand, TasksCommand};
use crate::console::Console;
pub(super) use change::link_prs;
pub(super) use plan_file::import_plan;

pub(super) fn run(command: TasksCommand, console: &Console) -> Ended {
    match command {
        TasksCommand::Add(args) => change::add(args, console),
        TasksCommand::List(args) => show::list(&args, console),
        TasksCommand::Show(args) => show::one(&args, console),
        TasksCommand::Set(group) => match group.command {
            SetCommand::Status(args) => change::set_status(&args, console),
        },
        TasksCommand::Edit(args) => change::edit(args, console),
        TasksCommand::Delete(args) => change::delete(&args, console),
        TasksCommand::Depend(args) => change::depend(&args, console),
        TasksCommand::Link(args) => change::link(&args, console),
        TasksCommand::Unlink(args) => change::unlink(&args, console),
        TasksCommand::Import(args) => plan_file::import(&args, console),
        TasksCommand::Export(args) => plan_file::export(&args, console),
        TasksCommand::Graph(args) => show::graph(&args, console),
    }
}
