//! Prints every shape of GraphQL document that the crate can send, one JSON object a line, for `tests/schema`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for (name, document) in cf_github::samples() {
        let line = serde_json::json!({
            "name": name,
            "query": document.query,
            "variables": document.variables,
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}
