//! What depends on the WAN device: whether it can be measured on, and what else is on it.

use std::path::Path;
use std::time::Duration;

use super::Check;
use crate::bpf;
use crate::net::{self, Device, Devices, Offloads};

/// `nft` answers at once or hangs on a lock.
const NFT_PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn look(name: &str) -> Vec<Check> {
    let devices = match Devices::list().await {
        Ok(devices) => devices,
        Err(error) => {
            return vec![Check::missing(
                "netlink",
                error.to_string(),
                "allow AF_NETLINK in the sandbox of this process",
                "devices cannot be found",
            )];
        }
    };
    let device = match devices.usable(name) {
        Ok(device) => device,
        Err(problem) => return vec![unusable(&problem)],
    };
    vec![
        Check::ok("device", format!("{name}: {}", description(device))),
        queue(device),
        offloads(device),
        in_front(device),
        beside(device).await,
        flow_offload(device).await,
    ]
}

fn unusable(problem: &net::DeviceProblem) -> Check {
    let text = problem.to_string();
    // A problem's message ends in its remedy.
    let (reason, remedy) = text.split_once("; ").unwrap_or((&text, ""));
    Check::missing("device", reason, remedy, "nothing can be measured on it")
}

fn description(device: &Device) -> String {
    let kind = device.kind.as_deref().unwrap_or("hardware");
    let carrier = if device.carrier { "up" } else { "up, but without carrier" };
    format!("ifindex {}, {kind}, {}, MTU {}, {carrier}", device.index, device.link_layer, device.mtu)
}

fn queue(device: &Device) -> Check {
    let qdisc = match device.qdisc.as_str() {
        "noqueue" | "" => "noqueue: packets never wait on this device".to_owned(),
        kind => kind.to_owned(),
    };
    Check::ok("qdisc", qdisc)
}

fn offloads(device: &Device) -> Check {
    match Offloads::of(&device.name) {
        Ok(offloads) if offloads.lro => Check::degraded(
            "offloads",
            "large receive offload is on",
            format!("ethtool -K {} lro off", device.name),
            "the card merges segments, ACKs too, before anybody can count them",
        ),
        Ok(offloads) => {
            let on = |name, is_on| if is_on { format!("{name} on") } else { format!("{name} off") };
            let list = [on("gro", offloads.gro), on("gso", offloads.gso), on("tso", offloads.tso)].join(", ");
            Check::ok("offloads", format!("lro off, {list}: merged packets count as their segments"))
        }
        Err(error) => Check::ok("offloads", format!("the driver does not report it: {error}")),
    }
}

/// An XDP program runs before TC ingress.
fn in_front(device: &Device) -> Check {
    let Some(xdp) = &device.xdp else { return Check::ok("xdp_in_front", "no XDP program on the device") };
    Check::degraded(
        "xdp_in_front",
        format!("XDP program {} ({}) is on the device", xdp.program, xdp.mode),
        format!("`bpftool prog show id {}` shows its owner", xdp.program),
        "ingress-hook = \"tc\" misses the packets it drops or redirects, and ingress-hook = \"xdp\" is unavailable",
    )
}

/// TC programs of others: they and ours go on working side by side.
async fn beside(device: &Device) -> Check {
    let mut found = bpf::tcx_programs(&device.name);
    found.extend(net::filters(device.index).await.unwrap_or_default());
    if found.is_empty() {
        return Check::ok("tc_beside", "no TC program or filter on the device");
    }
    Check::ok("tc_beside", format!("{}; they stay unchanged", found.join(", ")))
}

/// Flows that a flowtable hands to hardware pass no hook of the kernel. A software flowtable does not matter: TC
/// ingress runs before it, and TC egress after it (`__netif_receive_skb_core`, `__dev_queue_xmit` in net/core/dev.c).
async fn flow_offload(device: &Device) -> Check {
    const NAME: &str = "flow_offload";
    if !Path::new("/sys/module/nf_flow_table").exists() {
        return Check::ok(NAME, "no flow table is in use");
    }
    match flowtables().await {
        Ok(tables) => match flowtable(&tables, &device.name) {
            Some((table, true)) => Check::degraded(
                NAME,
                format!("nftables flowtable {table} hands flows of this device to hardware"),
                "remove `flags offload` from it while measuring",
                "offloaded flows pass without being seen",
            ),
            Some((table, false)) => Check::ok(
                NAME,
                format!(
                    "nftables flowtable {table} forwards flows of this device in software: they are seen"
                ),
            ),
            None => Check::ok(NAME, "no nftables flowtable has flows of this device"),
        },
        Err(reason) => Check::degraded(
            NAME,
            format!("the flow table module is loaded, and nftables cannot be asked: {reason}"),
            "install nftables, then run this again",
            "flows may bypass the measurement unnoticed",
        ),
    }
}

async fn flowtables() -> Result<serde_json::Value, String> {
    let nft =
        tokio::process::Command::new("nft").args(["-j", "list", "flowtables"]).kill_on_drop(true).output();
    let output = match tokio::time::timeout(NFT_PATIENCE, nft).await {
        Err(_) => return Err("nft does not answer".to_owned()),
        Ok(Err(error)) => return Err(format!("nft: {error}")),
        Ok(Ok(output)) => output,
    };
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// The flowtable that covers the device, and whether it hands flows to hardware; one that does comes first.
fn flowtable(tables: &serde_json::Value, device: &str) -> Option<(String, bool)> {
    // nft prints one alone, and several as a list.
    let has = |value: &serde_json::Value, wanted: &str| match value {
        serde_json::Value::String(one) => one == wanted,
        serde_json::Value::Array(several) => several.iter().any(|one| one == wanted),
        _ => false,
    };
    let tables = tables["nftables"].as_array()?.iter().map(|entry| &entry["flowtable"]);
    let name = |table: &serde_json::Value| table["name"].as_str().unwrap_or("without a name").to_owned();
    tables
        .filter(|table| has(&table["dev"], device))
        .map(|table| (name(table), has(&table["flags"], "offload")))
        .max_by_key(|(_, hardware)| *hardware)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flowtables_of_the_device_are_named_hardware_first() {
        let table = |name: &str, dev: serde_json::Value, flags: serde_json::Value| serde_json::json!({ "flowtable": { "family": "inet", "name": name, "dev": dev, "flags": flags } });
        let find = |tables: Vec<serde_json::Value>| {
            let mut listed = vec![serde_json::json!({ "metainfo": { "version": "1.0.6" } })];
            listed.extend(tables);
            flowtable(&serde_json::json!({ "nftables": listed }), "wan0")
        };
        let hardware = Some(("ft".to_owned(), true));
        assert_eq!(find(vec![table("ft", "wan0".into(), "offload".into())]), hardware);
        let listed = table("ft", vec!["lan0", "wan0"].into(), vec!["offload"].into());
        let software = table("soft", "wan0".into(), serde_json::Value::Null);
        assert_eq!(find(vec![listed.clone()]), hardware);
        assert_eq!(find(vec![software.clone()]), Some(("soft".to_owned(), false)));
        assert_eq!(find(vec![listed.clone(), software.clone()]), hardware);
        assert_eq!(find(vec![software, listed]), hardware);
        assert_eq!(find(vec![table("ft", "lan0".into(), "offload".into())]), None);
        assert_eq!(flowtable(&serde_json::Value::Null, "wan0"), None);
    }
}
