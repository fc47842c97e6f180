//! What the verifier makes of every BPF program, by kernel, against `baseline.toml`: growth is noticed where it happens, and not
//! when the first kernel refuses.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;

use aya::programs::{Program, ProgramError};
use aya::{Btf, EbpfLoader};
use aya_obj::generated::bpf_insn;
use pendulum::bpf::abi::pendulum_config;
use pendulum::bpf::{CWND_FENTRY_OBJECT, CWND_PROBE_OBJECT, PACKET_OBJECT, QUEUE_OBJECT, SHAPE_OBJECT};
use serde::Deserialize;

const OBJECTS: [&[u8]; 5] =
    [PACKET_OBJECT, QUEUE_OBJECT, CWND_FENTRY_OBJECT, CWND_PROBE_OBJECT, SHAPE_OBJECT];

/// Where the tracing programs go; the agent loads them for the same places.
const PLACES: [(&str, &str); 6] = [
    ("pendulum_enqueue", "qdisc_enqueue"),
    ("pendulum_dequeue", "qdisc_dequeue"),
    ("pendulum_drop", "kfree_skb"),
    ("pendulum_cwnd_probe", "tcp_probe"),
    ("pendulum_cwnd_after_ack", "tcp_ack"),
    ("pendulum_cwnd_on_segment", "tcp_rcv_established"),
];

/// Instructions the verifier may walk for one program; it refuses at a million. `pendulum_up` takes 300,000 on 6.1, which
/// prunes worst, and less than half of that on the others: what grows by a third is noticed here and not on that kernel.
const VERIFIER_BUDGET: u32 = 400_000;

/// The kernel's limit for a program and all that it calls.
const STACK_MAX: u32 = 512;

/// `baseline.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    /// A figure may be off by so much.
    margin_percent: u32,
    /// Bytes of stack, as Linux 6.1 counts them: a property of the object.
    stack: BTreeMap<String, u32>,
    /// Verified instructions by kernel and program. A program that is not there is refused by that kernel.
    verified: BTreeMap<String, BTreeMap<String, u32>>,
}

/// Major and minor number of the running kernel.
fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel tells");
    release.split(['.', '-']).take(2).collect::<Vec<_>>().join(".")
}

fn place(name: &str) -> &'static str {
    PLACES.iter().find(|(program, _)| *program == name).map_or("", |(_, place)| place)
}

fn load(name: &str, program: &mut Program, btf: &Btf) -> Result<(), ProgramError> {
    match program {
        Program::SchedClassifier(program) => program.load(),
        Program::Xdp(program) => program.load(),
        Program::BtfTracePoint(program) => program.load(place(name), btf),
        Program::FEntry(program) => program.load(place(name), btf),
        Program::FExit(program) => program.load(place(name), btf),
        other => panic!("{name} is of a type that this test does not know: {:?}", other.prog_type()),
    }
}

/// Instructions that this kernel's verifier walks, of each program that it takes.
fn verified() -> BTreeMap<String, u32> {
    let btf = Btf::from_sys_fs().expect("the kernel has BTF");
    let config = pendulum_config { queue_mark: 1, ..pendulum_config::default() };
    let mut walked = BTreeMap::new();
    for bytes in OBJECTS {
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&btf));
        // The objects of windows have a configuration of their own.
        if [PACKET_OBJECT, SHAPE_OBJECT].contains(&bytes) {
            loader.override_global("config", &config, true);
        }
        let mut object = loader.load(bytes).expect("the object and its maps are taken");
        let names: Vec<String> = object.programs().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let program = object.program_mut(&name).expect("it is there");
            if let Err(error) = load(&name, program, &btf) {
                let reason = error.to_string();
                println!("{name} is refused: {}", reason.lines().next().unwrap_or_default());
                continue;
            }
            let info = program.info().expect("known to the kernel");
            walked.insert(name, info.verified_instruction_count().expect("Linux 5.16 and newer tell"));
        }
    }
    walked
}

/// Deepest stack of each program with all that it calls, each frame rounded up to 32 bytes.
fn stacks() -> BTreeMap<String, u32> {
    let mut stacks = BTreeMap::new();
    for bytes in OBJECTS {
        let mut object = aya_obj::Object::parse(bytes).expect("a BPF object");
        let sections: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        object.relocate_calls(&sections).expect("calls are found");
        for (name, program) in &object.programs {
            let code = &object.functions[&program.function_key()].instructions;
            stacks.insert(name.clone(), depth(code, 0));
        }
    }
    stacks
}

/// A call of a function in the same program: where it begins.
fn call(index: usize, instruction: &bpf_insn) -> Option<usize> {
    const CALL: u8 = 0x85;
    const PSEUDO_CALL: u8 = 1;
    (instruction.code == CALL && instruction.src_reg() == PSEUDO_CALL)
        .then(|| index.saturating_add_signed(instruction.imm as isize) + 1)
}

fn depth(code: &[bpf_insn], start: usize) -> u32 {
    let starts: BTreeSet<usize> = code.iter().enumerate().filter_map(|(i, insn)| call(i, insn)).collect();
    let end = starts.range(start + 1..).next().copied().unwrap_or(code.len());
    let frame = frame(&code[start..end]).max(1).next_multiple_of(32);
    let called = (start..end).filter_map(|i| call(i, &code[i])).collect::<BTreeSet<_>>();
    frame + called.into_iter().map(|callee| depth(code, callee)).max().unwrap_or(0)
}

/// Lowest offset from the frame pointer that a function uses.
fn frame(code: &[bpf_insn]) -> u32 {
    const FRAME_POINTER: u8 = 10;
    const LOAD: u8 = 1;
    const STORE: u8 = 2;
    const STORE_REGISTER: u8 = 3;
    const MOVE: u8 = 0xbf;
    const ADD_CONSTANT: u8 = 0x07;
    let mut lowest = 0;
    let mut copies = [false; 11];
    for instruction in code {
        let (to, from) = (instruction.dst_reg(), instruction.src_reg());
        let class = instruction.code & 7;
        let base = if class == LOAD { from } else { to };
        if [LOAD, STORE, STORE_REGISTER].contains(&class) && base == FRAME_POINTER {
            lowest = lowest.min(i32::from(instruction.off));
        } else if instruction.code == ADD_CONSTANT && copies[usize::from(to)] {
            lowest = lowest.min(instruction.imm);
        }
        if class != STORE && class != STORE_REGISTER {
            let is_copy = from == FRAME_POINTER || copies[usize::from(from)];
            copies[usize::from(to)] = instruction.code == MOVE && is_copy;
        }
    }
    lowest.unsigned_abs()
}

fn as_toml(table: &str, figures: &BTreeMap<String, u32>) -> String {
    figures.iter().fold(format!("[{table}]\n"), |mut text, (name, figure)| {
        let _ = writeln!(text, "{name} = {figure}");
        text
    })
}

#[test]
fn verifier_walks_each_program_as_far_as_recorded() {
    let baseline: Baseline =
        toml::from_str(include_str!("baseline.toml")).expect("baseline.toml is as the test reads it");
    let kernel = kernel();
    let walked = verified();
    let text = as_toml(&format!("verified.\"{kernel}\""), &walked);
    println!("{text}");
    assert!(walked.values().all(|walked| *walked <= VERIFIER_BUDGET), "more than {VERIFIER_BUDGET}");
    let Some(recorded) = baseline.verified.get(&kernel) else {
        println!("SKIPPED verifier_walks_each_program_as_far_as_recorded: no record of Linux {kernel}");
        return;
    };
    let near = |now: u32, then: u32| now.abs_diff(then) * 100 <= then * baseline.margin_percent;
    let names: BTreeSet<&String> = walked.keys().chain(recorded.keys()).collect();
    for name in names {
        let (now, then) = (walked.get(name), recorded.get(name));
        assert!(
            now.zip(then).is_some_and(|(now, then)| near(*now, *then)),
            "{name} on Linux {kernel}: the verifier walks {now:?} instructions, {then:?} are recorded. If that is meant, put \
             this into tests/bpf/baseline.toml:\n{text}"
        );
    }
}

#[test]
fn stack_of_each_program_is_as_recorded() {
    let baseline: Baseline =
        toml::from_str(include_str!("baseline.toml")).expect("baseline.toml is as the test reads it");
    let stacks = stacks();
    assert!(stacks.values().all(|bytes| *bytes <= STACK_MAX), "Linux 6.1 refuses one of {stacks:?}");
    assert_eq!(
        stacks,
        baseline.stack,
        "if that is meant, put this into tests/bpf/baseline.toml:\n{}",
        as_toml("stack", &stacks)
    );
}
