//! Compiles the BPF objects with clang and generates the Rust side of `bpf/abi.h` with bindgen.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Objects that are loaded, each from `bpf/<name>.bpf.c`.
const OBJECTS: &[&str] = &["packet", "queue", "cwnd_fentry", "cwnd_probe", "shape"];

/// Newest first. clang 14 is the oldest that compiles the sources (`-mcpu=v3` with atomics).
const CLANGS: &[&str] = &["clang-19", "clang", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"];

fn main() -> Result<()> {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let bpf = manifest.parent().context("the agent crate lies inside the workspace")?.join("bpf");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", bpf.display());
    println!("cargo::rerun-if-env-changed=PENDULUM_CLANG");

    let clang = find_clang()?;
    for object in OBJECTS {
        compile(&clang, &bpf, &bpf.join(format!("{object}.bpf.c")), &out.join(format!("{object}.bpf.o")))?;
    }
    generate_abi(&bpf, &out)?;
    generate_rtt_bounds(&clang, &bpf, &out)
}

fn find_clang() -> Result<String> {
    let wanted = env::var("PENDULUM_CLANG").ok();
    let candidates = wanted.iter().map(String::as_str).chain(CLANGS.iter().copied());
    for candidate in candidates {
        if Command::new(candidate).arg("--version").output().is_ok_and(|o| o.status.success()) {
            return Ok(candidate.to_owned());
        }
    }
    bail!("no clang found to compile bpf/*.bpf.c; install Debian's clang-19, or name one in PENDULUM_CLANG")
}

fn compile(clang: &str, bpf: &Path, source: &Path, object: &Path) -> Result<()> {
    let mut command = Command::new(clang);
    let endian = env::var("CARGO_CFG_TARGET_ENDIAN")?;
    command
        .arg(if endian == "big" { "--target=bpfeb" } else { "--target=bpfel" })
        // v3: 32-bit ALU and fetching atomics, kernel 5.12 and newer.
        .args(["-mcpu=v3", "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror"])
        // The source's own directory must not show in the object: builds are reproducible.
        .arg(format!("-ffile-prefix-map={}=bpf", bpf.display()))
        .arg("-I")
        .arg(bpf);
    if endian == "big" {
        command.arg("-isystem").arg(bpf.join("big-endian"));
    }
    if let Some(headers) = asm_headers()? {
        command.args(["-idirafter", &headers]);
    }
    command.arg("-c").arg(source).arg("-o").arg(object);
    let status = command.status().with_context(|| format!("running {clang}"))?;
    if !status.success() {
        bail!("{clang} could not compile {}; libbpf headers come with Debian's libbpf-dev", source.display());
    }
    Ok(())
}

/// Where <asm/types.h> is, which <linux/types.h> includes: the target "bpf" has no multiarch directory, and a foreign
/// target's is seldom installed. Those of this machine do as well: all take it from <asm-generic/int-ll64.h>.
fn asm_headers() -> Result<Option<String>> {
    let host = env::var("HOST")?;
    let architectures = [&*env::var("CARGO_CFG_TARGET_ARCH")?, host.split('-').next().unwrap_or_default()]
        .map(|architecture| format!("/usr/include/{architecture}-linux-gnu"));
    Ok(architectures.into_iter().find(|directory| Path::new(directory).is_dir()))
}

fn generate_abi(bpf: &Path, out: &Path) -> Result<()> {
    bindgen::Builder::default()
        .header(bpf.join("abi.h").display().to_string())
        .clang_args(asm_headers()?.iter().flat_map(|headers| ["-idirafter", headers]))
        .allowlist_item("(pendulum|PENDULUM)_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(true)
        .use_core()
        .generate()
        .context("generating the Rust side of bpf/abi.h; libclang comes with Debian's libclang-19-dev")?
        .write_to_file(out.join("abi.rs"))
        .context("writing abi.rs")
}

/// bindgen does not translate array macros: let the preprocessor expand this one.
fn generate_rtt_bounds(clang: &str, bpf: &Path, out: &Path) -> Result<()> {
    let probe = out.join("rtt_bounds.c");
    std::fs::write(&probe, "#include \"abi.h\"\n=PENDULUM_RTT_BOUNDS_US\n")
        .context("writing rtt_bounds.c")?;
    let output = Command::new(clang).arg("-I").arg(bpf).args(["-E", "-P"]).arg(&probe).output()?;
    let text = String::from_utf8(output.stdout)?;
    let (_, bounds) = text.rsplit_once('=').context("abi.h defines PENDULUM_RTT_BOUNDS_US")?;
    let array = bounds.trim().replace('{', "[").replace('}', "]");
    std::fs::write(out.join("rtt_bounds.rs"), array).context("writing rtt_bounds.rs")
}
