//! `cf github status`: what is known about GitHub without asking it.

use std::io::{self, Write};

use cf_conductor::github::{BudgetView, HostView, StatusView, status};
use serde_json::{Value, json};

use super::super::Ended;
use super::super::batch::resolve;
use crate::config::{Layer, Setting};
use crate::console::{self, Console, Look};
use crate::render::{text, time};
use crate::workspace;

pub(super) fn run(console: &Console) -> Ended {
    let (workspace, store) = workspace::open_to_read()?;
    let layer = resolve(Some(&workspace), Layer::default(), Layer::default())?;
    let view = status(&layer.github(), &store, workspace.root())?;
    let switch = layer.reconcile_github.as_ref();
    if console.json {
        console::print_json(&shape(&view, switch))?;
        return Ok(0);
    }
    let mut out = console::out();
    write(console, &mut out, &view, switch)?;
    out.flush()?;
    Ok(0)
}

fn shape(view: &StatusView, switch: Option<&Setting<bool>>) -> Value {
    let budget = |budget: &Option<BudgetView>| {
        budget.map(|budget| {
            json!({
                "limit": budget.limit, "remaining": budget.remaining,
                "resets_at": time::full(budget.resets_at), "at": time::full(budget.at),
            })
        })
    };
    let hosts: Vec<Value> = view
        .hosts
        .iter()
        .map(|host| {
            json!({
                "host": host.host, "token": host.token, "refused": host.refused, "links": host.links,
                "graphql": budget(&host.graphql), "rest": budget(&host.rest),
                "circuit": if host.waits.is_some() { "open" } else { "closed" },
                "waits": host.waits.as_ref().map(|(why, until)| json!({ "why": why, "until": time::full(*until) })),
            })
        })
        .collect();
    json!({
        "reconcile_github": switch.map(|setting| setting.value),
        "default_host": view.default_host, "remote": view.remote, "hosts": hosts, "cached": view.cached,
    })
}

fn write(
    console: &Console,
    out: &mut impl Write,
    view: &StatusView,
    switch: Option<&Setting<bool>>,
) -> io::Result<()> {
    match switch {
        Some(setting) => writeln!(
            out,
            "reconcile_github: {} ({})",
            setting.value, setting.origin
        )?,
        None => writeln!(
            out,
            "reconcile_github: not set; on when there is a link or a GitHub remote"
        )?,
    }
    let remote = view.remote.as_deref().unwrap_or("none");
    writeln!(out, "remote: {}", text::line(remote))?;
    writeln!(out, "cached answers: {}", view.cached)?;
    for host in &view.hosts {
        writeln!(
            out,
            "\n{}",
            console.paint(Look::Strong, text::line(&host.host))
        )?;
        write_host(out, host)?;
    }
    Ok(())
}

fn write_host(out: &mut impl Write, host: &HostView) -> io::Result<()> {
    match (host.token, &host.refused) {
        (_, Some(refused)) => writeln!(out, "  off: {}", text::line(refused))?,
        (Some(token), None) => writeln!(out, "  token: from {token}")?,
        (None, None) => writeln!(out, "  token: none")?,
    }
    writeln!(out, "  links: {}", host.links)?;
    for (name, budget) in [("GraphQL", &host.graphql), ("REST", &host.rest)] {
        if let Some(budget) = budget {
            writeln!(
                out,
                "  {name} budget: {} of {} left, full again at {}",
                budget.remaining,
                budget.limit,
                time::short(budget.resets_at)
            )?;
        }
    }
    match &host.waits {
        Some((why, until)) => writeln!(
            out,
            "  paused: until {}: {}",
            time::short(*until),
            text::line(why)
        ),
        None => writeln!(out, "  paused: no"),
    }
}
