//! What depends on what, drawn for people or for other programs.

use std::borrow::Cow;
use std::io::{self, Write};

use cf_conductor::store::ids::ById;
use cf_core::{TaskId, TaskStatus};
use serde::Serialize;

use super::{task, text};
use crate::args::tasks::GraphFormat;
use crate::console::{Console, Look};

/// A task in the drawing; as JSON with its fields in this order.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Node {
    pub(crate) depends_on: Vec<TaskId>,
    pub(crate) id: TaskId,
    pub(crate) label: String,
    pub(crate) status: TaskStatus,
    pub(crate) title: String,
}

/// Draws the tasks.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write(
    console: &Console,
    out: &mut impl Write,
    nodes: &[Node],
    format: GraphFormat,
) -> io::Result<()> {
    match format {
        GraphFormat::Text => write_text(console, out, nodes),
        GraphFormat::Mermaid => write_mermaid(out, nodes),
        GraphFormat::Dot => write_dot(out, nodes),
    }
}

/// Position of each id, and for each node the positions of what depends on it.
fn dependents(nodes: &[Node]) -> (ById<usize>, Vec<Vec<usize>>) {
    let index: ById<usize> = nodes.iter().enumerate().map(|(at, n)| (n.id, at)).collect();
    let mut dependents = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        for on in node.depends_on.iter().filter_map(|on| index.get(on)) {
            dependents[*on].push(at);
        }
    }
    (index, dependents)
}

/// What depends on a task stands below it, further in; a task that stood already is only named again.
fn write_text(console: &Console, out: &mut impl Write, nodes: &[Node]) -> io::Result<()> {
    let (index, dependents) = dependents(nodes);
    let mut drawn = vec![false; nodes.len()];
    let roots = (0..nodes.len()).filter(|at| {
        !nodes[*at]
            .depends_on
            .iter()
            .any(|on| index.contains_key(on))
    });
    // A stack of its own: a chain of thousands of tasks is no reason to overflow the program's.
    let mut stack: Vec<(usize, usize)> = roots.map(|at| (at, 0)).collect();
    stack.reverse();
    while let Some((at, depth)) = stack.pop() {
        let node = &nodes[at];
        let indent = "  ".repeat(depth.min(40));
        if drawn[at] {
            writeln!(
                out,
                "{indent}{} {}",
                text::line(&node.label),
                console.paint(Look::Dim, "(above)")
            )?;
            continue;
        }
        drawn[at] = true;
        writeln!(
            out,
            "{indent}{}  {}  {}",
            console.paint(Look::Strong, text::line(&node.label)),
            console.paint(task::look(node.status), node.status),
            text::line(&node.title)
        )?;
        stack.extend(dependents[at].iter().rev().map(|next| (*next, depth + 1)));
    }
    Ok(())
}

fn write_mermaid(out: &mut impl Write, nodes: &[Node]) -> io::Result<()> {
    let (_, dependents) = dependents(nodes);
    writeln!(out, "flowchart TD")?;
    for (at, node) in nodes.iter().enumerate() {
        write!(out, "    n{at}[\"")?;
        write_caption(out, node, "<br/>", mermaid)?;
        out.write_all(b"\"]\n")?;
    }
    for (at, list) in dependents.iter().enumerate() {
        for next in list {
            writeln!(out, "    n{at} --> n{next}")?;
        }
    }
    Ok(())
}

fn write_dot(out: &mut impl Write, nodes: &[Node]) -> io::Result<()> {
    let (_, dependents) = dependents(nodes);
    writeln!(out, "digraph tasks {{")?;
    for (at, node) in nodes.iter().enumerate() {
        write!(out, "    n{at} [label=\"")?;
        write_caption(out, node, "\\n", dot)?;
        out.write_all(b"\"];\n")?;
    }
    for (at, list) in dependents.iter().enumerate() {
        for next in list {
            writeln!(out, "    n{at} -> n{next};")?;
        }
    }
    writeln!(out, "}}")
}

fn write_caption(
    out: &mut impl Write,
    node: &Node,
    line_break: &str,
    escape: fn(&str) -> Cow<'_, str>,
) -> io::Result<()> {
    out.write_all(escape(&text::line(&node.label)).as_bytes())?;
    write!(out, " ({}){line_break}", node.status.as_str())?;
    out.write_all(escape(&text::line(&node.title)).as_bytes())
}

/// Mermaid takes entities by number or name, written with `#` in place of `&`.
///
/// A percent sign could begin a directive (`%%{init…}%%` is looked for in the whole text before it is parsed), a colon
/// a style, and `&` an entity of HTML.
fn mermaid(text: &str) -> Cow<'_, str> {
    use std::fmt::Write as _;
    if !text.contains(['"', '<', '>', '&', '#', '%', '`', ':', '\\']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => escaped.push_str("#quot;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '&' => escaped.push_str("#amp;"),
            '#' | '%' | '`' | ':' | '\\' => {
                let _ = write!(escaped, "#{};", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// In a quoted label Graphviz reads backslashes and the entities of HTML.
fn dot(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '\\', '"']) {
        return Cow::Borrowed(text);
    }
    let escaped = text.replace('&', "&amp;").replace('\\', "\\\\");
    Cow::Owned(escaped.replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> TaskId {
        format!("00000000-0000-0000-0000-0000000000{n:02x}")
            .parse()
            .unwrap()
    }

    fn nodes() -> Vec<Node> {
        let node = |n: u8, label: &str, title: &str, on: &[u8]| Node {
            id: id(n),
            label: label.to_owned(),
            title: title.to_owned(),
            status: TaskStatus::Ready,
            depends_on: on.iter().map(|n| id(*n)).collect(),
        };
        vec![
            node(4, "end", "last", &[2, 3]),
            node(1, "start", "say \"hi\" <b>#1", &[]),
            node(2, "left", "l", &[1]),
            node(3, "right", "r\u{1b}[31m", &[1, 99]),
        ]
    }

    fn drawn(format: GraphFormat) -> String {
        let mut out = Vec::new();
        write(&Console::plain(None), &mut out, &nodes(), format).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_puts_dependents_below() {
        assert_eq!(
            drawn(GraphFormat::Text),
            "start  READY  say \"hi\" <b>#1\n  left  READY  l\n    end  READY  last\n  right  READY  r\n    end (above)\n"
        );
    }

    #[test]
    fn mermaid_escapes_what_it_would_read() {
        let text = drawn(GraphFormat::Mermaid);
        assert!(
            text.starts_with("flowchart TD\n    n0[\"end (READY)<br/>last\"]\n"),
            "{text}"
        );
        assert!(
            text.contains("n1[\"start (READY)<br/>say #quot;hi#quot; #lt;b#gt;#35;1\"]"),
            "{text}"
        );
        assert!(text.contains("    n1 --> n2\n"), "{text}");
    }

    #[test]
    fn no_title_becomes_a_directive_a_style_or_an_entity() {
        assert_eq!(
            mermaid("%%{init: {}}%% style x:#fff; &lt;"),
            "#37;#37;{init#58; {}}#37;#37; style x#58;#35;fff; #amp;lt;"
        );
        assert_eq!(dot("a\\\"];&lt;"), "a\\\\\\\"];&amp;lt;");
    }

    #[test]
    fn dot_escapes_quotes() {
        let text = drawn(GraphFormat::Dot);
        assert!(
            text.contains("label=\"start (READY)\\nsay \\\"hi\\\" <b>#1\""),
            "{text}"
        );
        assert!(text.contains("    n2 -> n0;\n"), "{text}");
        assert!(text.ends_with("}\n"), "{text}");
    }

    #[test]
    fn a_long_chain_is_drawn() {
        let nodes: Vec<Node> = (0..50_000u32)
            .map(|n| Node {
                id: format!("00000000-0000-0000-0000-{n:012x}").parse().unwrap(),
                label: n.to_string(),
                title: String::new(),
                status: TaskStatus::Done,
                depends_on: n
                    .checked_sub(1)
                    .map(|p| format!("00000000-0000-0000-0000-{p:012x}").parse().unwrap())
                    .into_iter()
                    .collect(),
            })
            .collect();
        let mut out = Vec::new();
        write(&Console::plain(None), &mut out, &nodes, GraphFormat::Text).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 50_000);
    }
}
