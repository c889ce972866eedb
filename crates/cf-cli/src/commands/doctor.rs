//! `cf doctor`: what is wrong, and what to do about it.

use std::io::Write as _;

use cf_conductor::doctor::{self, Examination, Finding, Leftover, Level};
use cf_conductor::workspace::Workspace;
use serde_json::json;

use super::Ended;
use crate::args::DoctorArgs;
use crate::config::Places;
use crate::console::{self, Console, Look};
use crate::error::{CliError, FAILED};
use crate::render::text;
use crate::workspace;

/// What became of each leftover.
type Cleaned = Vec<(Leftover, Result<(), String>)>;

pub(super) fn run(args: &DoctorArgs, console: &Console) -> Ended {
    let (found, refused) = match workspace::find() {
        Ok(found) => (found, None),
        // What makes other commands stop is what this one is for.
        Err(error) => (None, Some(error)),
    };
    if args.fix {
        refuse_agent(found.as_ref())?;
    }
    let places = Places::of_process(found.as_ref().map(Workspace::config_file));
    let (layer, wrong) = places.resolve_what_is_right();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut examined = doctor::examine(found.as_ref(), &layer.github(), &path);
    if let Some(error) = refused {
        examined.findings[0] = told("workspace", &error);
    }
    let settings = if wrong.is_empty() {
        vec![Finding::ok("config", "every setting can be used")]
    } else {
        wrong
            .into_iter()
            .map(|error| told("config", &CliError::from(error)))
            .collect()
    };
    examined.findings.splice(1..1, settings);
    let cleaned = match &found {
        Some(workspace) if args.fix => doctor::clean(workspace, &examined.leftovers),
        _ => Vec::new(),
    };
    if args.fix && !cleaned.is_empty() {
        after_cleaning(&mut examined, &cleaned);
        let wake = found.as_ref().map(Workspace::wake_file);
        let is_free = |(gone, result): &(Leftover, Result<(), String>)| {
            Some(&gone.path) == wake.as_ref() && result.is_ok()
        };
        if cleaned.iter().any(is_free) {
            examined.findings.retain(|finding| finding.check != "wake");
        }
    }
    show(&examined, &cleaned, console)?;
    let is_fine = examined
        .findings
        .iter()
        .all(|finding| finding.level < Level::Problem);
    Ok(if is_fine { 0 } else { FAILED })
}

fn refuse_agent(workspace: Option<&Workspace>) -> Result<(), CliError> {
    let Some(workspace) = workspace else {
        return Ok(());
    };
    // Without a store that can be read there is nobody to be found in it.
    let Ok(store) = cf_conductor::store::Store::open_to_read(workspace) else {
        return Ok(());
    };
    match cf_conductor::caller::actor(&store)? {
        cf_core::Actor::Attempt(_) => Err(cf_conductor::store::StoreError::NotForAgents {
            deed: "clean up".to_owned(),
        }
        .into()),
        _ => Ok(()),
    }
}

/// An error as a finding.
fn told(check: &'static str, error: &CliError) -> Finding {
    let (what, hint) = error.told();
    Finding::problem(check, what, hint.unwrap_or_else(|| "correct it".to_owned()))
}

/// The finding about leftovers as it is once they are gone.
fn after_cleaning(examined: &mut Examination, cleaned: &Cleaned) {
    let left = cleaned.iter().filter(|(_, result)| result.is_err()).count();
    let gone = cleaned.len() - left;
    let finding = if left == 0 {
        Finding::ok("leftovers", format!("none; {gone} removed"))
    } else {
        Finding::problem(
            "leftovers",
            format!("{gone} removed, {left} not"),
            "each says why; look at the permissions of .cf",
        )
    };
    for old in examined
        .findings
        .iter_mut()
        .filter(|old| old.check == "leftovers")
    {
        *old = finding.clone();
    }
}

fn show(examined: &Examination, cleaned: &Cleaned, console: &Console) -> Result<(), CliError> {
    if console.json {
        let shown = |leftover: &Leftover| json!({ "path": leftover.path.to_string_lossy(), "what": leftover.what });
        let leftovers: Vec<_> = examined.leftovers.iter().map(shown).collect();
        let cleaned: Vec<_> = cleaned
            .iter()
            .map(|(leftover, result)| {
                let mut shown = shown(leftover);
                shown["error"] = json!(result.as_ref().err());
                shown
            })
            .collect();
        console::print_json(&json!({
            "ok": examined.findings.iter().all(|finding| finding.level < Level::Problem),
            "findings": examined.findings, "leftovers": leftovers, "cleaned": cleaned,
        }))?;
        return Ok(());
    }
    let mut out = console::out();
    for finding in &examined.findings {
        let (word, look) = match finding.level {
            Level::Ok => ("ok", Look::Good),
            Level::Note => ("note", Look::Warn),
            Level::Problem => ("problem", Look::Bad),
        };
        writeln!(
            out,
            "{}  {:<9}  {}",
            console.paint(look, format_args!("{word:<7}")),
            finding.check,
            text::line(&finding.what)
        )?;
        if let Some(hint) = &finding.hint {
            writeln!(
                out,
                "{:20}{}",
                "",
                console.paint(Look::Dim, text::line(hint))
            )?;
        }
        if finding.check == "leftovers" {
            list(examined, cleaned, &mut out)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// What is left over, or what became of it.
fn list(
    examined: &Examination,
    cleaned: &Cleaned,
    out: &mut impl std::io::Write,
) -> std::io::Result<()> {
    if cleaned.is_empty() {
        for Leftover { path, what, .. } in &examined.leftovers {
            writeln!(
                out,
                "{:20}{what}: {}",
                "",
                text::line(&path.display().to_string())
            )?;
        }
    }
    for (Leftover { path, what, .. }, result) in cleaned {
        let path = path.display().to_string();
        match result {
            Ok(()) => writeln!(out, "{:20}removed {what}: {}", "", text::line(&path))?,
            Err(why) => writeln!(
                out,
                "{:20}not removed, {what}: {} ({why})",
                "",
                text::line(&path)
            )?,
        }
    }
    Ok(())
}
