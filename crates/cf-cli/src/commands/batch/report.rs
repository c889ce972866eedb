//! `cf work batch report`.

use std::io::Write as _;
use std::path::Path;

use cf_core::Timestamp;
use serde_json::json;

use super::super::Ended;
use super::{conductor_of, named_or_newest};
use crate::args::work::ReportArgs;
use crate::console::{self, Console};
use crate::error::CliError;
use crate::made_file;
use crate::render::report::{Report, ReportJson, page, write_words};
use crate::workspace;

pub(in crate::commands) fn report(args: &ReportArgs, console: &Console) -> Ended {
    let to_stdout = args.html.as_deref() == Some(Path::new("-"));
    if to_stdout && console.json {
        return Err(CliError::usage(
            "standard output cannot be both a page and JSON",
            "leave out --json, or give --html a file",
        ));
    }
    let (workspace, store) = workspace::open_to_read()?;
    let id = named_or_newest(&store, args.batch.as_ref())?;
    let history = store.read(|reader| reader.batch_history(id))?;
    let conductor = conductor_of(&workspace, &history.batch);
    let place = workspace.root().file_name().unwrap_or_default();
    let report = Report::new(
        history,
        place.to_string_lossy().into_owned(),
        Timestamp::now(),
    );
    let Some(file) = &args.html else {
        if console.json {
            let listed = report.listed(conductor);
            let shape = ReportJson::new(&report, &listed, &workspace);
            console::print_json(&shape)?;
            return Ok(0);
        }
        let mut out = console::out();
        write_words(&report, conductor, console, &mut out)?;
        out.flush()?;
        return Ok(0);
    };
    let page = page(&report);
    if to_stdout {
        let mut out = console::out();
        out.write_all(page.as_bytes())?;
        out.flush()?;
        return Ok(0);
    }
    made_file::write(file, page.as_bytes())?;
    if console.json {
        let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        console::print_json(&json!({ "batch": id, "html": path.to_string_lossy() }))?;
    } else {
        console.say(format_args!("wrote {}", file.display()))?;
    }
    Ok(0)
}
