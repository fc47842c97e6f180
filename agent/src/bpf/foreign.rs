//! Programs of others on a device.

use aya::programs::{SchedClassifier, TcAttachType};

/// The TCX programs on a device, ours included, as `ingress: name (id 7)`. Empty where the kernel has no TCX.
pub fn tcx_programs(device: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (side, hook) in [("ingress", TcAttachType::Ingress), ("egress", TcAttachType::Egress)] {
        let Ok((_, programs)) = SchedClassifier::query_tcx(device, hook) else { continue };
        found.extend(programs.iter().map(|program| {
            let name = program.name_as_str().unwrap_or("unnamed");
            format!("{side}: {name} (id {})", program.id())
        }));
    }
    found
}
