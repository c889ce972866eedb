//! What depends on what, drawn for people or for other programs.

use std::borrow::Cow;
use std::io::{self, Write};

use cf_conductor::store::ids::ById;
use cf_core::{TaskId, TaskStatus};
use serde::Serialize;

use super::{number, task, text};
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

/// The language of a drawing for another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// A flowchart of Mermaid.
    Mermaid,
    /// A digraph of Graphviz.
    Dot,
}

/// A drawing for another program: one task after the other, and then what depends on what.
#[derive(Debug)]
pub(crate) struct Diagram {
    language: Language,
    tasks: u32,
}

impl Diagram {
    /// Writes the beginning.
    pub(crate) fn begin(out: &mut Vec<u8>, language: Language) -> Self {
        let begin = match language {
            Language::Mermaid => "flowchart TD\n",
            Language::Dot => "digraph tasks {\n",
        };
        out.extend_from_slice(begin.as_bytes());
        Self { language, tasks: 0 }
    }

    /// Writes a task, and returns its place in the drawing.
    pub(crate) fn task(
        &mut self,
        out: &mut Vec<u8>,
        label: &str,
        status: &str,
        title: &str,
    ) -> u32 {
        let place = self.tasks;
        self.tasks += 1;
        let (begin, line_break, end) = match self.language {
            Language::Mermaid => ("[\"", "<br/>", "\"]\n"),
            Language::Dot => (" [label=\"", "\\n", "\"];\n"),
        };
        let escape = match self.language {
            Language::Mermaid => mermaid,
            Language::Dot => dot,
        };
        out.extend_from_slice(b"    n");
        number::push(out, place.into());
        out.extend_from_slice(begin.as_bytes());
        out.extend_from_slice(escape(&text::line(label)).as_bytes());
        out.extend_from_slice(b" (");
        out.extend_from_slice(status.as_bytes());
        out.push(b')');
        out.extend_from_slice(line_break.as_bytes());
        out.extend_from_slice(escape(&text::line(title)).as_bytes());
        out.extend_from_slice(end.as_bytes());
        place
    }

    /// Writes what depends on what, given as places `(needed, by)`, and the end.
    pub(crate) fn end(self, out: &mut Vec<u8>, edges: &mut [(u32, u32)]) {
        edges.sort_unstable();
        let (arrow, end) = match self.language {
            Language::Mermaid => (" --> n", "\n"),
            Language::Dot => (" -> n", ";\n"),
        };
        for (needed, by) in edges {
            out.extend_from_slice(b"    n");
            number::push(out, (*needed).into());
            out.extend_from_slice(arrow.as_bytes());
            number::push(out, (*by).into());
            out.extend_from_slice(end.as_bytes());
        }
        if self.language == Language::Dot {
            out.extend_from_slice(b"}\n");
        }
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

/// Draws the tasks for people: what depends on a task stands below it, further in; a task that stood already is only
/// named again.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write_text(
    console: &Console,
    out: &mut impl Write,
    nodes: &[Node],
) -> io::Result<()> {
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

/// Mermaid takes entities by number or name, written with `#` in place of `&`.
///
/// A percent sign could begin a directive (`%%{init…}%%` is looked for in the whole text before it is parsed), a colon
/// a style, and `&` an entity of HTML.
fn mermaid(text: &str) -> Cow<'_, str> {
    use std::fmt::Write as _;
    let is_special = |byte| b"\"<>&#%`:\\".contains(&byte);
    if !text.bytes().any(is_special) {
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
    if !text.bytes().any(|byte| matches!(byte, b'&' | b'\\' | b'"')) {
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

    fn drawn(language: Language) -> String {
        let mut out = Vec::new();
        let mut diagram = Diagram::begin(&mut out, language);
        let nodes = nodes();
        let mut places: ById<u32> = ById::default();
        for node in &nodes {
            let status = node.status.as_str();
            places.insert(
                node.id,
                diagram.task(&mut out, &node.label, status, &node.title),
            );
        }
        let mut edges = Vec::new();
        for node in &nodes {
            let on = node.depends_on.iter().filter_map(|on| places.get(on));
            edges.extend(on.map(|on| (*on, places[&node.id])));
        }
        diagram.end(&mut out, &mut edges);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_puts_dependents_below() {
        let mut out = Vec::new();
        write_text(&Console::plain(None), &mut out, &nodes()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "start  READY  say \"hi\" <b>#1\n  left  READY  l\n    end  READY  last\n  right  READY  r\n    end (above)\n"
        );
    }

    #[test]
    fn mermaid_escapes_what_it_would_read() {
        let text = drawn(Language::Mermaid);
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
        let text = drawn(Language::Dot);
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
        write_text(&Console::plain(None), &mut out, &nodes).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 50_000);
    }
}
