//! The HTTP side against bad input and bad company: the answer is clear, and the agent goes on as before.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::agent::{Agent, PENDULUM};
use crate::netns::{Netns, outcome, run};

/// Sends each line of its input, taken as a Python literal of bytes, on a connection of its own, and prints the first line of
/// each answer.
const RAW: &str = "import ast, socket, sys
for line in sys.stdin:
    connection = socket.create_connection(('127.0.0.1', 9924), timeout=10)
    connection.sendall(ast.literal_eval(line))
    answer = b''
    try:
        while b'\\r\\n' not in answer and (piece := connection.recv(65536)):
            answer += piece
    except ConnectionError:
        pass
    print(answer.split(b'\\r\\n')[0].decode('ascii', 'replace'))";

/// The status lines of raw requests, each a Python expression of bytes.
fn raw(netns: &Netns, requests: &[&str]) -> Vec<String> {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut python = netns.command("python3");
    let mut python = python.args(["-c", RAW]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(requests.join("\n").as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn descriptors(agent: &Agent<'_>) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", agent.id())).unwrap().count()
}

#[test]
fn malformed_requests_are_refused_and_nothing_else_happens() {
    let Some((gateway, _provider)) =
        Netns::with_provider("malformed_requests_are_refused_and_nothing_else_happens")
    else {
        return;
    };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let before = descriptors(&agent);
    let long_path = format!("b'GET /{} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'", "x".repeat(60_000));
    let fitting_path = format!("b'GET /{} HTTP/1.0\\r\\n\\r\\n'", "x".repeat(4_000));
    let many_headers =
        format!("b'GET / HTTP/1.1\\r\\nHost: localhost\\r\\n{}\\r\\n'", "A: b\\r\\n".repeat(100));
    let cases = [
        ("b'GET / HTTP/1.1\\r\\n\\r\\n'", "200"),
        ("b'GET /healthz HTTP/1.0\\r\\n\\r\\n'", "200"),
        ("b'\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc\\x03\\x03'", "400"),
        ("b'hello\\r\\n\\r\\n'", "400"),
        ("b'GET /\\x00 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'", "400"),
        ("b'GET / HTTP/9.9\\r\\nHost: localhost\\r\\n\\r\\n'", "400"),
        ("b'GET / HTTP/1.1\\r\\nHost localhost\\r\\n\\r\\n'", "400"),
        ("b'POST /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 5\\r\\n\\r\\nhello'", "405"),
        ("b'BREW / HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'", "405"),
        ("b'GET /../../etc/passwd HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'", "404"),
        ("b'GET /%2e%2e/%00 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'", "404"),
        ("b'GET /metrics HTTP/1.1\\r\\nHost: \\xff\\xfe\\r\\n\\r\\n'", "421"),
        ("b'GET /metrics HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n'", "421"),
        (&fitting_path, "404"),
        (&long_path, "431"),
        (&many_headers, "431"),
    ];
    let answers = raw(&gateway, &cases.map(|(request, _)| request));
    for ((request, expected), answer) in cases.iter().zip(&answers) {
        let request = request.chars().take(80).collect::<String>();
        assert_eq!(answer.split(' ').nth(1), Some(*expected), "{request}: {answer}");
    }
    // Closing takes a moment. The measuring side may open something meanwhile, but not for each request.
    agent.wait_until("connections are closed", |agent| descriptors(agent) < before + cases.len() / 2);
    assert_eq!(agent.get("/readyz").map(|(status, _)| status), Some(200));
}

#[test]
fn hundreds_of_scrapes_leave_nothing_behind() {
    const SCRAPES: usize = 300;
    let Some((gateway, _provider)) = Netns::with_provider("hundreds_of_scrapes_leave_nothing_behind") else {
        return;
    };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let scrape = |count: usize| {
        let url = format!("http://127.0.0.1:9924/metrics?[1-{count}]");
        let mut curl = gateway.command("curl");
        // With more than 128 at once, those that a busy machine keeps from sending would lose their connections.
        curl.args(["--silent", "--parallel", "--parallel-immediate", "--parallel-max", "100"]);
        run(curl.args(["--output", "/dev/null", "--write-out", "%{http_code}\n", &url]))
    };
    scrape(200);
    let resident = |agent: &Agent<'_>| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let (descriptors_before, resident_before) = (descriptors(&agent), resident(&agent));
    let mut answers = BTreeMap::new();
    for status in scrape(SCRAPES).lines() {
        *answers.entry(status.to_owned()).or_insert(0) += 1;
    }
    assert_eq!(answers, BTreeMap::from([("200".to_owned(), SCRAPES)]));
    agent.wait_until("connections are closed", |agent| descriptors(agent) <= descriptors_before + 10);
    let grown = resident(&agent).saturating_sub(resident_before);
    assert!(grown < 8 * 1024, "{SCRAPES} scrapes made the agent grow by {grown} kB");
    assert_eq!(agent.get("/readyz").map(|(status, _)| status), Some(200));
}

pub(crate) const TOKEN: &str = "f3c9a1d2b4e5f60718293a4b5c6d7e8f";

/// A configuration for other hosts, in a directory with its certificate, key and token.
pub(crate) fn secured(directory: &Path) -> String {
    let path = |name: &str| directory.join(name).display().to_string();
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    openssl.args(["-days", "2", "-subj", "/CN=gateway.example"]);
    openssl.args(["-addext", "subjectAltName=DNS:gateway.example,IP:192.0.2.1"]);
    run(openssl.args(["-keyout", &path("key.pem"), "-out", &path("certificate.pem")]));
    std::fs::write(path("token"), TOKEN).unwrap();
    std::fs::set_permissions(path("token"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = format!(
        "listen = \"192.0.2.1:9924\"\n[http]\nnames = [\"gateway.example\"]\ntoken-file = \"{}\"\n\
         tls-certificate = \"{}\"\ntls-key = \"{}\"\n[[link]]\nwan = \"wan0\"\n",
        path("token"),
        path("certificate.pem"),
        path("key.pem")
    );
    std::fs::write(path("pendulum.toml"), config).unwrap();
    path("pendulum.toml")
}

#[test]
fn other_hosts_need_the_token_and_see_the_certificate() {
    let Some((gateway, provider)) =
        Netns::with_provider("other_hosts_need_the_token_and_see_the_certificate")
    else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let config = secured(directory.path());
    let authority = directory.path().join("certificate.pem").display().to_string();
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let trust = ["--cacert", authority.as_str(), "--header", bearer.as_str()];
    let origin = "https://192.0.2.1:9924";
    let agent = Agent::start_guarded(&gateway, &["--config", &config], origin, &trust);
    assert_eq!(agent.get("/metrics").map(|(status, _)| status), Some(200));

    let ask = |arguments: &[&str]| {
        let mut curl = provider.command("curl");
        curl.args(["--silent", "--max-time", "10", "--output", "/dev/null", "--write-out", "%{http_code}"]);
        outcome(curl.args(arguments)).1
    };
    let name = ["--resolve", "gateway.example:9924:192.0.2.1", "--cacert", &authority];
    let by_name = |path: &str, more: &[&str]| {
        let url = format!("https://gateway.example:9924{path}");
        ask(&[&name[..], more, &[url.as_str()]].concat())
    };
    assert_eq!(by_name("/api/v1/flows", &["--header", &bearer]), "200");
    assert_eq!(by_name("/api/v1/flows", &["--tls-max", "1.2", "--header", &bearer]), "200");
    assert_eq!(by_name("/api/v1/flows", &[]), "401");
    assert_eq!(by_name("/", &[]), "200");
    assert_eq!(by_name("/api/v1/flows", &["--tls-max", "1.1", "--header", &bearer]), "000");
    // Without the certificate nobody is trusted, and without TLS nobody is understood.
    assert_eq!(ask(&["--header", &bearer, "https://192.0.2.1:9924/metrics"]), "000");
    assert_eq!(ask(&["--header", &bearer, "http://192.0.2.1:9924/metrics"]), "000");
    assert!(!agent.log().contains(TOKEN) && !agent.log().contains("can be reached from other hosts"));
}

#[test]
fn listening_wider_says_what_that_shows() {
    let Some((gateway, _provider)) = Netns::with_provider("listening_wider_says_what_that_shows") else {
        return;
    };
    let agent = Agent::start(&gateway, &["--wan", "wan0", "--listen", "0.0.0.0:9924"]);
    let log = agent.log();
    for part in
        ["without a token", "/api/v1/flows", "http.token-file", "not encrypted", "http.tls-certificate"]
    {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[test]
fn a_wrong_key_or_token_stops_the_start() {
    let Some((gateway, _provider)) = Netns::with_provider("a_wrong_key_or_token_stops_the_start") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let config = secured(directory.path());
    let before = gateway.hooks();
    let start = || outcome(gateway.command(PENDULUM).args(["run", "--config", &config]));
    let file = |name: &str| directory.path().join(name);
    for (name, content, code, part) in [
        ("token", "short", 78, "holds 5 characters, and a token has 16 to 512; make one with"),
        ("key.pem", "no key", 78, "it must be a PEM file that the agent may read"),
        ("certificate.pem", "no certificate", 78, "http.tls-certificate"),
    ] {
        let good = std::fs::read(file(name)).unwrap();
        std::fs::write(file(name), content).unwrap();
        let (exit, _, message) = start();
        assert_eq!(exit, code, "{message}");
        assert!(message.contains(part) && message.contains(name), "{message}");
        std::fs::write(file(name), good).unwrap();
    }
    // The key of another certificate.
    let mut openssl = Command::new("openssl");
    openssl.args(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"]).arg(file("key.pem"));
    run(&mut openssl);
    let (exit, _, message) = start();
    assert_eq!(exit, 78, "{message}");
    assert!(
        message.contains("the key that the first certificate of tls-certificate was made for"),
        "{message}"
    );
    std::fs::remove_file(file("token")).unwrap();
    assert_eq!(gateway.hooks(), before);
}
