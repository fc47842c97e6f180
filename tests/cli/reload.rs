//! SIGHUP reads the configuration again: all of a good file that can change, nothing of a bad one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::agent::{Agent, PENDULUM};
use crate::http::{TOKEN, secured};
use crate::netns::{Netns, outcome, run};

fn write(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
}

/// Sends SIGHUP and waits until so many reloads were applied and refused.
fn reload(agent: &mut Agent<'_>, applied: u64, refused: u64) -> serde_json::Value {
    agent.signal("HUP");
    let config = |agent: &Agent<'_>| agent.json("/api/v1/state")["config"].clone();
    agent.wait_until("the reload is counted", |agent| {
        let config = config(agent);
        config["reloads_applied"] == applied && config["reloads_refused"] == refused
    });
    config(agent)
}

const START: &str = "[[link]]\nwan = \"wan0\"\nuplink-rate = \"10mbit\"\n";

#[test]
fn a_good_file_is_taken_over_without_detaching() {
    let Some((gateway, _provider)) = Netns::with_provider("a_good_file_is_taken_over_without_detaching")
    else {
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), START);
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let objects = agent.kernel_objects();

    write(
        file.path(),
        "listen = \"127.0.0.1:9999\"\n\
         [[link]]\nwan = \"wan0\"\nuplink-rate = \"5mbit\"\ndownlink-rate = \"50mbit\"\nmax-flows = 300\n\
         [log]\nlevel = \"debug\"\n",
    );
    let config = reload(&mut agent, 1, 0);
    assert_eq!(config["waiting_for_restart"], serde_json::json!(["listen", "link wan0: max-flows"]));
    agent.wait_until("the new rate is in use", |agent| {
        agent.link("wan0")["link"]["uplink_rate_bps"] == 5_000_000
    });
    assert_eq!(agent.link("wan0")["link"]["downlink_rate_bps"], 50_000_000);
    assert_eq!(agent.kernel_objects(), objects, "the programs of before are still the ones in use");
    let log = agent.log();
    assert!(log.contains("changed: log.level, link wan0: uplink-rate, link wan0: downlink-rate"), "{log}");
    assert!(log.contains("need a restart: listen, link wan0: max-flows"), "{log}");
    let (_, metrics) = agent.get("/metrics").unwrap();
    assert!(metrics.contains("\npendulum_config_reloads_total{result=\"applied\"} 1\n"), "{metrics}");
    assert!(metrics.contains("\npendulum_config_settings_waiting 2\n"), "{metrics}");

    // Back to the first file: nothing waits any more, and only errors are written from now on.
    write(file.path(), &format!("{START}[log]\nlevel = \"error\"\n"));
    let config = reload(&mut agent, 2, 0);
    assert_eq!(config["waiting_for_restart"], serde_json::json!([]));
    assert!(agent.end("TERM").success());
    assert!(!agent.log().contains("stopping"), "{}", agent.log());
}

#[test]
fn a_bad_file_changes_nothing_and_the_reason_is_reported() {
    let Some((gateway, _provider)) =
        Netns::with_provider("a_bad_file_changes_nothing_and_the_reason_is_reported")
    else {
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), START);
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let objects = agent.kernel_objects();

    // The first change is fine, the second is not: neither is made.
    write(file.path(), "[[link]]\nwan = \"wan0\"\nuplink-rate = \"1mbit\"\nmax-flows = 1\n");
    let config = reload(&mut agent, 0, 1);
    let reason = config["error"].as_str().unwrap();
    assert!(reason.contains(":4: link[0].max-flows: 1 is out of range; allowed are 256 to"), "{reason}");
    assert!(agent.log().contains("the configuration in use stays as it is"), "{}", agent.log());

    std::fs::remove_file(file.path()).unwrap();
    let config = reload(&mut agent, 0, 2);
    assert!(config["error"].as_str().unwrap().contains("cannot read"), "{config}");

    assert_eq!(agent.link("wan0")["link"]["uplink_rate_bps"], 10_000_000);
    assert_eq!(agent.kernel_objects(), objects);
    let (_, metrics) = agent.get("/metrics").unwrap();
    assert!(metrics.contains("\npendulum_config_reloads_total{result=\"refused\"} 2\n"), "{metrics}");
    assert!(metrics.contains("\npendulum_config_last_reload_successful 0\n"), "{metrics}");

    write(file.path(), START);
    assert!(reload(&mut agent, 1, 2)["error"].is_null());
}

#[test]
fn without_a_file_there_is_nothing_to_read_again() {
    let Some((gateway, _provider)) = Netns::with_provider("without_a_file_there_is_nothing_to_read_again")
    else {
        return;
    };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    let config = reload(&mut agent, 0, 1);
    assert!(config["error"].as_str().unwrap().contains("start it with --config FILE"), "{config}");
    assert!(agent.end("TERM").success());
}

/// Links come and go; the others are not touched.
#[test]
fn links_follow_the_file() {
    let Some((gateway, _provider)) = Netns::with_provider("links_follow_the_file") else { return };
    gateway.ip("link add wan1 type veth peer name far1");
    gateway.ip("link set wan1 up");
    gateway.ip("link set far1 up");
    let before = gateway.hooks();
    let file = tempfile::NamedTempFile::new().unwrap();
    let two = format!("{START}[[link]]\nwan = \"wan1\"\nname = \"lte\"\n");
    write(file.path(), START);
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    let (first, second) = (gateway.index("wan0"), gateway.index("wan1"));
    agent.wait_attached("wan0", first);
    let objects = agent.kernel_objects();
    let names = |agent: &Agent<'_>| {
        let state = agent.json("/api/v1/state");
        let links = state["links"].as_array().unwrap().iter();
        links.map(|link| link["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    write(file.path(), &two);
    assert_eq!(reload(&mut agent, 1, 0)["waiting_for_restart"], serde_json::json!([]));
    agent.wait_attached("lte", second);
    assert_eq!(names(&agent), ["wan0", "lte"]);
    let now = agent.kernel_objects();
    assert!(objects.iter().all(|object| now.contains(object)), "the first link's programs stay");
    let (_, metrics) = agent.get("/metrics").unwrap();
    assert!(metrics.contains("\npendulum_link_up{link=\"lte\"} 1\n"), "{metrics}");

    // All or nothing: a third link that cannot be measured, and a change beside it.
    gateway.ip("link add br0 type bridge");
    gateway.ip("link add port0 type veth peer name port1");
    gateway.ip("link set port0 master br0 up");
    write(file.path(), &format!("{}[[link]]\nwan = \"port0\"\n", two.replace("10mbit", "5mbit")));
    let config = reload(&mut agent, 1, 1);
    let reason = config["error"].as_str().unwrap();
    assert!(reason.contains("link port0: ") && reason.contains("br0"), "{reason}");
    assert_eq!(agent.link("wan0")["link"]["uplink_rate_bps"], 10_000_000);
    assert_eq!(names(&agent), ["wan0", "lte"]);

    // Under another name, a device that is measured waits.
    write(file.path(), &two.replace("\"lte\"", "\"mobile\""));
    let config = reload(&mut agent, 2, 1);
    let waiting = ["link mobile on wan1 (added)", "link lte on wan1 (removed)"];
    assert_eq!(config["waiting_for_restart"], serde_json::json!(waiting));
    assert_eq!(names(&agent), ["wan0", "lte"]);

    write(file.path(), "[[link]]\nwan = \"wan1\"\nname = \"lte\"\n");
    assert_eq!(reload(&mut agent, 3, 1)["waiting_for_restart"], serde_json::json!([]));
    agent.wait_until("the first link is let go", |agent| !agent.hooked().contains(&first));
    assert_eq!(names(&agent), ["lte"]);
    // The claim goes last: then somebody else may have the device, at another address.
    agent.wait_until("the claim to the first link's device ends", |_| {
        let sockets = run(gateway.command("cat").arg("/proc/net/unix"));
        !sockets.contains("@pendulum/wan/wan0/")
    });
    let mut other = Agent::start_guarded(
        &gateway,
        &["--wan", "wan0", "--listen", "127.0.0.1:9925"],
        "http://127.0.0.1:9925",
        &[],
    );
    other.wait_attached("wan0", first);
    assert!(other.end("TERM").success(), "{}", other.log());
    assert!(agent.end("TERM").success(), "{}", agent.log());
    gateway.ip("link del br0");
    gateway.ip("link del port0");
    assert_eq!(gateway.hooks(), before);
}

/// The verifier takes its time for a link's programs: nobody else waits for it.
#[test]
fn requests_are_answered_while_links_are_loaded() {
    let Some((gateway, _provider)) = Netns::with_provider("requests_are_answered_while_links_are_loaded")
    else {
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut more = START.to_owned();
    for number in 1..=3 {
        gateway.ip(&format!("link add wan{number} type veth peer name far{number}"));
        gateway.ip(&format!("link set wan{number} up"));
        gateway.ip(&format!("link set far{number} up"));
        more.push_str(&format!("[[link]]\nwan = \"wan{number}\"\n"));
    }
    write(file.path(), START);
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let one = agent.kernel_objects().len();
    let applied =
        |agent: &Agent<'_>| agent.json("/api/v1/state")["config"]["reloads_applied"].as_u64().unwrap();
    // Between the first of their programs and the end of the reload an answer comes. This side may be late to see them, so it tries a few
    // times.
    let answered = (0..5).any(|turn| {
        write(file.path(), &more);
        agent.signal("HUP");
        agent.wait_until("their programs are being loaded", |agent| agent.kernel_objects().len() > one);
        let meanwhile = applied(&agent) == 2 * turn;
        agent.wait_until("they are attached", |agent| applied(agent) == 2 * turn + 1);
        write(file.path(), START);
        reload(&mut agent, 2 * turn + 2, 0);
        meanwhile || {
            agent.wait_until("they are gone", |agent| agent.kernel_objects().len() == one);
            false
        }
    });
    assert!(answered, "{}", agent.log());
    // Those that went may come back at once.
    let before = applied(&agent);
    write(file.path(), &more);
    assert!(reload(&mut agent, before + 1, 0)["error"].is_null());
    assert!(agent.end("TERM").success(), "{}", agent.log());
    assert_eq!(agent.log().matches(" ERROR ").count(), 0, "{}", agent.log());
}

/// Token and certificate are read again from the same paths. What cannot be used changes nothing.
#[test]
fn renewed_secrets_are_used() {
    const RENEWED: &str = "00112233445566778899aabbccddeeff";
    let Some((gateway, _provider)) = Netns::with_provider("renewed_secrets_are_used") else { return };
    let directory = tempfile::tempdir().unwrap();
    let config = secured(directory.path());
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::copy(path("certificate.pem"), path("first.pem")).unwrap();
    let first = path("first.pem");
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let trust = ["--cacert", first.as_str(), "--header", bearer.as_str()];
    let mut agent = Agent::start_guarded(&gateway, &["--config", &config], "https://192.0.2.1:9924", &trust);
    let ask = |authority: &str, token: &str| {
        let mut curl = gateway.command("curl");
        curl.args(["--silent", "--max-time", "10", "--output", "/dev/null", "--write-out", "%{http_code}"]);
        curl.args(["--cacert", authority, "--header", &format!("Authorization: Bearer {token}")]);
        outcome(curl.arg("https://192.0.2.1:9924/api/v1/flows")).1
    };
    assert_eq!(ask(&first, TOKEN), "200");
    // The key is made for its owner alone, and a certificate is for everybody.
    let exposed = |agent: &Agent<'_>| agent.log().matches("every user of this machine may read it").count();
    assert_eq!(exposed(&agent), 0, "{}", agent.log());

    // A good token beside a key of another certificate: neither is used.
    std::fs::write(path("token"), RENEWED).unwrap();
    let key = std::fs::read(path("key.pem")).unwrap();
    std::fs::write(path("key.pem"), "no key").unwrap();
    agent.signal("HUP");
    agent.wait_until("the reload is refused", |agent| {
        agent.log().contains("the configuration in use stays as it is: http.tls-key")
    });
    assert_eq!((ask(&first, TOKEN), ask(&first, RENEWED)), ("200".to_owned(), "401".to_owned()));

    std::fs::write(path("key.pem"), key).unwrap();
    std::fs::set_permissions(path("token"), std::fs::Permissions::from_mode(0o644)).unwrap();
    agent.signal("HUP");
    agent.wait_until("the token is renewed", |agent| {
        agent.log().contains("changed: http.token-file (new content)\n")
    });
    assert_eq!((ask(&first, TOKEN), ask(&first, RENEWED)), ("401".to_owned(), "200".to_owned()));
    agent.wait_until("the mode is told", |agent| exposed(agent) == 1);
    let checked = run(gateway.command(PENDULUM).args(["check-config", &config]));
    assert!(checked.contains("warning: http.token-file ") && checked.contains("chmod o-r"), "{checked}");

    let mut openssl = std::process::Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    openssl.args(["-days", "2", "-subj", "/CN=renewed", "-addext", "subjectAltName=IP:192.0.2.1"]);
    run(openssl.args(["-keyout", &path("key.pem"), "-out", &path("certificate.pem")]));
    agent.signal("HUP");
    agent.wait_until("the certificate is renewed", |agent| {
        agent.log().contains("changed: http.tls-certificate, http.tls-key (new content)\n")
    });
    assert_eq!(ask(&path("certificate.pem"), RENEWED), "200");
    assert_eq!(ask(&first, RENEWED), "000", "the old certificate is not shown any more");
}
