//! Devices that come and go, and kinds of devices.

use crate::agent::Agent;
use crate::netns::Netns;

#[test]
fn a_device_that_is_made_anew_is_measured_again() {
    let Some((gateway, provider)) = Netns::with_provider("a_device_that_is_made_anew_is_measured_again")
    else {
        return;
    };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    let first = gateway.index("wan0");
    agent.wait_attached("wan0", first);
    gateway.ip("link delete dev wan0");
    agent.wait_until("the loss is seen", |agent| agent.link("wan0")["device"] == "missing");
    let lost = agent.link("wan0");
    assert_eq!(lost["attached"], false);
    assert!(lost["trouble"].as_str().unwrap().contains("does not exist"), "{lost}");
    assert_eq!(agent.get("/readyz").map(|(status, _)| status), Some(503));

    gateway.add_wan("wan0", &provider);
    let second = gateway.index("wan0");
    assert_ne!(first, second);
    agent.wait_attached("wan0", second);
    agent.wait_until("it is ready again", |agent| {
        agent.get("/readyz").is_some_and(|(status, _)| status == 200)
    });
}

#[test]
fn counters_go_on_over_a_new_device() {
    let Some((gateway, provider)) = Netns::with_provider("counters_go_on_over_a_new_device") else { return };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    let seen = |agent: &Agent<'_>| agent.link("wan0")["directions"]["up"]["bytes"].as_u64().unwrap();
    crate::netns::run(gateway.command("ping").args(["-c", "5", "-i", "0.05", "192.0.2.2"]));
    // Five echo requests of 98 bytes; address resolution comes on top.
    agent.wait_until("the echoes are counted", |agent| seen(agent) >= 5 * 98);
    let before = seen(&agent);
    gateway.ip("link delete dev wan0");
    agent.wait_until("the loss is seen", |agent| agent.link("wan0")["device"] == "missing");
    gateway.add_wan("wan0", &provider);
    agent.wait_attached("wan0", gateway.index("wan0"));
    crate::netns::run(gateway.command("ping").args(["-c", "5", "-i", "0.05", "192.0.2.2"]));
    agent.wait_until("both are counted", |agent| seen(agent) >= before + 5 * 98);
}

#[test]
fn a_renamed_device_is_given_up_and_taken_back() {
    let Some((gateway, _provider)) = Netns::with_provider("a_renamed_device_is_given_up_and_taken_back")
    else {
        return;
    };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    let index = gateway.index("wan0");
    agent.wait_attached("wan0", index);
    gateway.ip("link set dev wan0 down");
    agent.wait_until("it is down", |agent| agent.link("wan0")["device"] == "down");
    assert_eq!(agent.link("wan0")["attached"], true, "a downed device stays attached");
    gateway.ip("link set dev wan0 name old0");
    agent.wait_until("the loss is seen", |agent| agent.link("wan0")["attached"] == false);
    assert_eq!(agent.hooked(), [0_u64; 0]);
    assert!(!gateway.hooks().contains("pendulum"), "{}", gateway.hooks());
    gateway.ip("link set dev old0 name wan0");
    agent.wait_attached("wan0", index);
}

#[test]
fn a_missing_link_does_not_keep_the_others_waiting() {
    let Some((gateway, provider)) = Netns::with_provider("a_missing_link_does_not_keep_the_others_waiting")
    else {
        return;
    };
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        config.path(),
        "[[link]]\nname = \"dsl\"\nwan = \"wan0\"\n[[link]]\nname = \"lte\"\nwan = \"wwan0\"\n",
    )
    .unwrap();
    let mut agent = Agent::start(&gateway, &["--config", config.path().to_str().unwrap()]);
    agent.wait_attached("dsl", gateway.index("wan0"));
    assert_eq!(agent.link("lte")["device"], "missing");
    assert!(agent.log().contains("`wwan0` does not exist"), "{}", agent.log());
    // Before 6.2 only a device that is down can be renamed.
    provider.ip("link set dev isp down");
    provider.ip("link set dev isp name first");
    provider.ip("link set dev first up");
    gateway.add_wan("wwan0", &provider);
    agent.wait_attached("lte", gateway.index("wwan0"));
}

#[test]
fn wait_starts_without_any_device() {
    let Some(gateway) = Netns::new("wait_starts_without_any_device") else { return };
    let Some(provider) = Netns::new("wait_starts_without_any_device") else { return };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0", "--wait"]);
    assert_eq!(agent.get("/readyz").map(|(status, _)| status), Some(503));
    gateway.add_wan("wan0", &provider);
    agent.wait_attached("wan0", gateway.index("wan0"));
}

#[test]
fn a_device_without_link_header() {
    let Some(gateway) = Netns::new("a_device_without_link_header") else { return };
    gateway.ip("tuntap add dev tun0 mode tun");
    gateway.ip("link set dev tun0 up");
    let mut agent = Agent::start(&gateway, &["--wan", "tun0"]);
    agent.wait_attached("tun0", gateway.index("tun0"));
    assert_eq!(agent.link("tun0")["hooks"]["link_layer"], "raw-ip");
}

#[test]
fn a_device_that_comes_back_with_another_link_layer() {
    let Some(gateway) = Netns::new("a_device_that_comes_back_with_another_link_layer") else { return };
    let Some(provider) = Netns::new("a_device_that_comes_back_with_another_link_layer") else { return };
    gateway.ip("tuntap add dev wan0 mode tun");
    gateway.ip("link set dev wan0 up");
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    gateway.ip("link delete dev wan0");
    gateway.add_wan("wan0", &provider);
    agent.wait_attached("wan0", gateway.index("wan0"));
    assert_eq!(agent.link("wan0")["hooks"]["link_layer"], "ethernet");
}

#[test]
fn xdp_ingress() {
    let Some((gateway, _provider)) = Netns::with_provider("xdp_ingress") else { return };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0", "--ingress-hook", "xdp"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let hooks = &agent.link("wan0")["hooks"];
    assert_eq!(hooks["ingress"], "xdp-native");
    assert!(agent.end("TERM").success());
    assert!(!gateway.hooks().contains("pendulum"), "{}", gateway.hooks());
}

/// Generic XDP would turn receive offload off: TC takes its place, and the log says why.
#[test]
fn a_driver_without_xdp_is_measured_by_tc() {
    let test = "a_driver_without_xdp_is_measured_by_tc";
    let Some((gateway, _provider)) = Netns::with_provider(test) else { return };
    gateway.ip("link add link wan0 name upper0 type macvlan");
    gateway.ip("link set dev upper0 up");
    let mut agent = Agent::start(&gateway, &["--wan", "upper0", "--ingress-hook", "xdp"]);
    agent.wait_attached("upper0", gateway.index("upper0"));
    let link = agent.link("upper0");
    let ingress = link["hooks"]["ingress"].as_str().unwrap();
    assert!(["tcx", "clsact"].contains(&ingress), "{ingress}");
    let programs: Vec<_> =
        link["programs"].as_array().unwrap().iter().map(|p| (&p["name"], &p["attached"])).collect();
    assert!(
        programs.iter().any(|(name, attached)| **name == "pendulum_down" && **attached == true),
        "{programs:?}"
    );
    let log = agent.log();
    assert!(log.contains("ingress is measured by TC, not by XDP as asked for"), "{log}");
    assert!(agent.end("TERM").success());
    assert!(!gateway.hooks().contains("pendulum"), "{}", gateway.hooks());
}

/// A shaper above the port's speed would never hold a packet. A veth says that it is a port of 10 Gbit/s.
#[test]
fn a_rate_above_the_port_s_is_not_shaped_and_the_reason_has_both() {
    let Some((gateway, _provider)) =
        Netns::with_provider("a_rate_above_the_port_s_is_not_shaped_and_the_reason_has_both")
    else {
        return;
    };
    let config = tempfile::NamedTempFile::new().unwrap();
    let link = "[[link]]\nwan = \"wan0\"\nuplink-rate = \"20gbit\"\n";
    std::fs::write(config.path(), format!("{link}[shape]\nmode = \"enforce\"\n")).unwrap();
    let mut agent = Agent::start(&gateway, &["--config", config.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let shape = |agent: &Agent<'_>| agent.json("/api/v1/state")["links"][0]["shape"].clone();
    agent.wait_until("it is refused", |agent| shape(agent)["state"] == "refused");
    let reason = shape(&agent)["reason"].as_str().unwrap().to_owned();
    for part in ["the uplink", "wan0 is a port of 10gbit", "correct the rate"] {
        assert!(reason.contains(part), "no '{part}' in: {reason}");
    }
}
