//! Surroundings that mean no good: odd paths, closed streams, no `/proc`, no room, no rights.

mod disk;
mod dumps;
mod links;
mod namespaces;
mod paths;
mod process;
mod streams;

use cf_testkit::Workspace;

/// How to start a program with namespaces of its own: as root at once, else as root of a user namespace. Nothing where
/// neither is allowed; a test then has nothing to say.
fn unshare(ws: &Workspace, flags: &[&str]) -> Option<Vec<String>> {
    let as_root = ["unshare"].map(str::to_owned);
    let as_user = ["unshare", "--user", "--map-root-user"].map(str::to_owned);
    for start in [as_root.to_vec(), as_user.to_vec()] {
        let mut call = start;
        call.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let tried = ws
            .program_call(
                "/usr/bin/env",
                call.iter().map(String::as_str).chain(["true"]),
            )
            .run();
        if tried.exit_code() == Some(0) {
            return Some(call);
        }
    }
    eprintln!("namespaces are not allowed here: nothing was tried");
    None
}
