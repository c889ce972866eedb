//! How the program is linked where it is used: at a fixed place, and with the C compiler's unwinder inside.
//!
//! A program that can be loaded anywhere has every address in its data filled in at each start, which touches, and so
//! copies, some hundred pages. Each library that has to be found and mapped takes a tenth of a millisecond. `cf` starts
//! often (each supervisor is `cf` again) and several of it run at once.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|set| set == value);
    if !(is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu"))
    {
        return;
    }
    println!("cargo:rustc-link-arg-bins=-no-pie");
    // With the linker of this architecture (lld) what the program has itself needs no library; others keep the library.
    if is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("HOST", &std::env::var("TARGET").unwrap_or_default())
        && let Some(unwinder) = unwinder()
    {
        // It lies in a folder of the compiler's version, and is looked for anew once that is gone.
        println!("cargo:rerun-if-changed={}", unwinder.display());
        println!(
            "cargo:rustc-link-arg-bins=-Wl,--whole-archive,{},--no-whole-archive",
            unwinder.display()
        );
    }
}

/// The archive with what is otherwise in `libgcc_s.so`, where there is one. Any linker of this architecture can take
/// it, also one that is not called `cc`.
fn unwinder() -> Option<PathBuf> {
    let told = Command::new("cc")
        .arg("-print-file-name=libgcc_eh.a")
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(told.stdout).ok()?.trim());
    // A compiler that has none answers with the bare name.
    path.is_absolute()
        .then_some(path)
        .filter(|path| path.is_file())
}
