//! Compiles the BPF objects with clang and generates the Rust side of `bpf/abi.h` with bindgen.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Objects that are loaded: the folder below `bpf/`, and the object, from `<name>.bpf.c` there.
const OBJECTS: &[(&str, &str)] = &[
    ("packet", "packet"),
    ("queue", "queue"),
    ("cwnd", "cwnd_fentry"),
    ("cwnd", "cwnd_probe"),
    ("shape", "shape"),
];

/// Newest first. clang 14 is the oldest that compiles the sources (`-mcpu=v3` with atomics).
const CLANGS: &[&str] = &["clang-19", "clang", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"];

fn main() -> Result<()> {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let bpf = manifest.parent().context("the agent crate lies inside the workspace")?.join("bpf");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", bpf.display());
    println!("cargo::rerun-if-env-changed=PENDULUM_CLANG");
    println!("cargo::rerun-if-env-changed=PENDULUM_LLVM_STRIP");

    if env::var("CARGO_CFG_TARGET_ENDIAN")? == "big" {
        bail!(
            "pendulum is not made for big-endian processors: no kernel for one is in its tests. Build it for x86-64 or arm64"
        );
    }
    let clang = find_clang()?;
    for (folder, object) in OBJECTS {
        let source = bpf.join(folder).join(format!("{object}.bpf.c"));
        compile(&clang, &bpf, &source, &out.join(format!("{object}.bpf.o")))?;
    }
    generate_abi(&bpf, &out)?;
    generate_time_bounds(&clang, &bpf, &out)
}

fn find_clang() -> Result<String> {
    let wanted = env::var("PENDULUM_CLANG").ok();
    let candidates = wanted.iter().map(String::as_str).chain(CLANGS.iter().copied());
    for candidate in candidates {
        if Command::new(candidate).arg("--version").output().is_ok_and(|o| o.status.success()) {
            return Ok(candidate.to_owned());
        }
    }
    bail!("no clang found to compile bpf/*/*.bpf.c; install Debian's clang-19, or name one in PENDULUM_CLANG")
}

fn compile(clang: &str, bpf: &Path, source: &Path, object: &Path) -> Result<()> {
    let mut command = Command::new(clang);
    command
        .arg("--target=bpfel")
        // v3: 32-bit ALU and fetching atomics, kernel 5.12 and newer.
        .args(["-mcpu=v3", "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror"])
        // The source's own directory must not show in the object: builds are reproducible.
        .arg(format!("-ffile-prefix-map={}=bpf", bpf.display()))
        .arg("-I")
        .arg(bpf);
    if let Some(headers) = asm_headers()? {
        command.args(["-idirafter", &headers]);
    }
    command.arg("-c").arg(source).arg("-o").arg(object);
    let status = command.status().with_context(|| format!("running {clang}"))?;
    if !status.success() {
        bail!("{clang} could not compile {}; libbpf headers come with Debian's libbpf-dev", source.display());
    }
    // clang writes the types that the kernel reads (BTF) only along with those for debuggers (DWARF), a third of the object.
    if let Ok(strip) = env::var("PENDULUM_LLVM_STRIP")
        && !Command::new(&strip).arg("-g").arg(object).status().is_ok_and(|status| status.success())
    {
        bail!(
            "{strip} could not strip {}; PENDULUM_LLVM_STRIP names it, and Debian's llvm-19 has llvm-strip-19",
            object.display()
        );
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
    let generated = bindgen::Builder::default()
        .header(bpf.join("abi.h").display().to_string())
        .clang_arg(format!("-I{}", bpf.display()))
        .clang_args(asm_headers()?.iter().flat_map(|headers| ["-idirafter", headers]))
        .allowlist_item("(pendulum|PENDULUM)_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_eq(true)
        .derive_ord(true)
        .derive_hash(true)
        .layout_tests(true)
        .use_core()
        .generate()
        .context("generating the Rust side of bpf/abi.h; libclang comes with Debian's libclang-19-dev")?
        .to_string();
    std::fs::write(out.join("abi.rs"), &generated).context("writing abi.rs")?;
    std::fs::write(out.join("names.rs"), names(&generated)?).context("writing names.rs")
}

/// Names that both sides know: the members of abi.h's enumerations in the order of their values, in lower case.
fn names(generated: &str) -> Result<String> {
    // What is written, enumeration, what its names begin with, and what ends the group.
    let lists = [
        ("LOST", "pendulum_stat", "PENDULUM_LOST_", "PENDULUM_LOST_REASONS"),
        ("DROPS", "pendulum_drop", "PENDULUM_DROP_", "PENDULUM_DROPS"),
        ("QUEUE_EVENTS", "pendulum_queue_event", "PENDULUM_QUEUE_", "PENDULUM_QUEUE_EVENTS"),
        ("QUEUE_CLASSES", "pendulum_queue_class", "PENDULUM_QUEUE_", "PENDULUM_QUEUE_CLASSES"),
        ("ACK_FATES", "pendulum_ack_fate", "PENDULUM_ACK_", "PENDULUM_ACK_FATES"),
    ];
    // What became of an ACK, and why: two labels.
    let actions = ["passed", "held", "would_hold", "rewritten", "released"];
    let mut text = String::new();
    for (list, of, prefix, end) in lists {
        let members = members(generated, of);
        let count =
            members.iter().find(|(name, _)| name == end).with_context(|| format!("{of} has no {end}"))?.1;
        let mut found = vec![None; count];
        for (name, value) in &members {
            if let Some(name) = name.strip_prefix(prefix).filter(|_| name != end)
                && let Some(place) = found.get_mut(*value)
            {
                *place = Some(name.to_lowercase());
            }
        }
        let found: Vec<String> =
            found.into_iter().collect::<Option<_>>().with_context(|| format!("{of} leaves out a value"))?;
        if list != "ACK_FATES" {
            text += &format!("/// Of `enum {of}`.\npub const {list}: [&str; {count}] = {found:?};\n");
            continue;
        }
        let pair = |name: &String| {
            actions
                .iter()
                .find_map(|action| Some((*action, name.strip_prefix(action)?.strip_prefix('_')?.to_owned())))
        };
        let pairs: Vec<(&str, String)> =
            found.iter().map(pair).collect::<Option<_>>().with_context(|| format!("{of}: ACTION_REASON"))?;
        text += &format!(
            "/// Of `enum {of}`: action and reason.\npub const {list}: [(&str, &str); {count}] = {pairs:?};\n"
        );
    }
    Ok(text)
}

/// Names and values of one enumeration, as bindgen has written them.
fn members(generated: &str, of: &str) -> Vec<(String, usize)> {
    let constant = |text: &str| {
        let (name, rest) = text.split_once(':')?;
        let (kind, rest) = rest.split_once('=')?;
        let value = rest.split(';').next()?.trim().parse().ok()?;
        (kind.trim() == of).then(|| (name.trim().to_owned(), value))
    };
    generated.split("pub const ").filter_map(constant).collect()
}

/// bindgen does not translate array macros: let the preprocessor expand this one.
fn generate_time_bounds(clang: &str, bpf: &Path, out: &Path) -> Result<()> {
    let probe = out.join("time_bounds.c");
    std::fs::write(&probe, "#include \"abi.h\"\n=PENDULUM_TIME_BOUNDS_US\n")
        .context("writing time_bounds.c")?;
    let output = Command::new(clang).arg("-I").arg(bpf).args(["-E", "-P"]).arg(&probe).output()?;
    let text = String::from_utf8(output.stdout)?;
    let (_, bounds) = text.rsplit_once('=').context("abi.h defines PENDULUM_TIME_BOUNDS_US")?;
    let array = bounds.trim().replace('{', "[").replace('}', "]");
    std::fs::write(out.join("time_bounds.rs"), array).context("writing time_bounds.rs")
}
