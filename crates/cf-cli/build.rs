//! How the program is linked where it is used: at a fixed place.
//!
//! A program that can be loaded anywhere has every address in its data filled in at each start, which touches, and so
//! copies, some hundred pages. `cf` starts often (each supervisor is `cf` again) and several of it run at once.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|set| set == value);
    if is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
    {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
