//! A real Prometheus beside the agent on the lab's gateway: it scrapes, evaluates the project's rules, and answers queries.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::{Agent, fetch};
use crate::lab::Lab;
use crate::netns::{Host, NetnsError};
use crate::process::{Process, ProcessError};

/// Why Prometheus could not be run or asked.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    /// It could not be started on the gateway.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// It could not be handled.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file of its own could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It ended, does not answer, or refuses a query.
    #[error("Prometheus ({}): {reason}", program.display())]
    Answer {
        /// The program.
        program: PathBuf,
        /// Its last words, or what it said of the query.
        reason: String,
    },
}

/// What it is to do.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The program.
    pub program: PathBuf,
    /// Rule files.
    pub rules: Vec<PathBuf>,
    /// Between two scrapes, and between two evaluations of the rules.
    pub interval: Duration,
    /// The rules' windows and waiting times are made shorter by this factor; 1 leaves them.
    pub hurry: u32,
    /// Where it scrapes, inside the gateway's namespace: the agent, or what passes its answers on.
    pub target: SocketAddr,
    /// It asks for protobuf alone.
    pub protobuf: bool,
}

impl Setup {
    /// Scrapes the agent once a second, without any rule.
    pub fn new(program: PathBuf) -> Self {
        let interval = Duration::from_secs(1);
        Self { program, rules: Vec::new(), interval, hurry: 1, target: Agent::ADDRESS, protobuf: false }
    }

    /// How this program is set to ask for protobuf: a setting of the scrape since 2.49, an experiment of the whole server before.
    fn protobuf(&self) -> Result<Protobuf, PrometheusError> {
        if !self.protobuf {
            return Ok(Protobuf::No);
        }
        let failed = |reason| PrometheusError::Answer { program: self.program.clone(), reason };
        let told = Command::new(&self.program).arg("--version").output();
        let told = told.map_err(|error| failed(format!("--version: {error}")))?;
        let text = String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).into_owned();
        let numbers = text.split_once("version ").map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()));
        let numbers: Option<Vec<u32>> =
            numbers.map(|numbers| numbers.take(2).filter_map(|n| n.parse().ok()).collect());
        match numbers.as_deref() {
            Some(version @ [_, _]) if version >= &[2, 49] => Ok(Protobuf::Setting),
            Some([_, _]) => Ok(Protobuf::Feature),
            _ => Err(failed(format!("it does not tell its version: {}", text.trim()))),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Protobuf {
    No,
    Setting,
    Feature,
}

/// A running Prometheus. Dropping it ends it; its data goes with the lab.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    program: PathBuf,
    host: Host,
    protobuf: Protobuf,
}

impl Prometheus {
    /// Where it listens, inside the gateway's namespace.
    pub const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9090);
    /// The label `instance` of the agent.
    pub const INSTANCE: SocketAddr = Agent::ADDRESS;
    const PATIENCE: Duration = Duration::from_secs(30);
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

    /// Whether it takes native histograms in place of classic ones: the experiment that makes an old one ask for protobuf does.
    pub fn keeps_native_histograms(&self) -> bool {
        self.protobuf == Protobuf::Feature
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// If a rule file cannot be read, or it ends or is not ready after half a minute.
    pub fn start(lab: &Lab, setup: &Setup) -> Result<Self, PrometheusError> {
        let host = lab.gateway();
        let home = host.state_dir().join("prometheus");
        let file = |path: &Path, source| PrometheusError::File { path: path.to_owned(), source };
        std::fs::create_dir_all(&home).map_err(|source| file(&home, source))?;
        for rules in &setup.rules {
            let text = std::fs::read_to_string(rules).map_err(|source| file(rules, source))?;
            let copy = home.join(rules.file_name().unwrap_or(rules.as_os_str()));
            std::fs::write(&copy, hurried(&text, setup.hurry)).map_err(|source| file(&copy, source))?;
        }
        let protobuf = setup.protobuf()?;
        let config = home.join("prometheus.yaml");
        std::fs::write(&config, configuration(setup, protobuf)).map_err(|source| file(&config, source))?;

        let mut command = host.command(&setup.program)?;
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", home.join("data").display()));
        command.arg(format!("--web.listen-address={}", Self::ADDRESS));
        // The lookback is what keeps a series visible after its last sample.
        command.args(["--query.lookback-delta=15s", "--log.level=warn"]);
        if protobuf == Protobuf::Feature {
            command.arg("--enable-feature=native-histograms");
        }
        let process = host.spawn(command, "prometheus")?;
        let mut prometheus = Self { process, program: setup.program.clone(), host, protobuf };
        let deadline = Instant::now() + Self::PATIENCE;
        loop {
            match prometheus.get("/-/ready") {
                Ok(_) => return Ok(prometheus),
                Err(error) if prometheus.process.try_wait()?.is_some() || Instant::now() > deadline => {
                    return Err(error);
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// The result of a query at this moment: an array with one element for each series.
    ///
    /// # Errors
    /// If it does not answer, or refuses the query.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>, PrometheusError> {
        let answer = self.api(&format!("/api/v1/query?query={}", escaped(expression)))?;
        Ok(answer["result"].as_array().cloned().unwrap_or_default())
    }

    /// Field `data` of an answer of its API.
    ///
    /// # Errors
    /// If it does not answer, or refuses the request.
    pub fn api(&self, path: &str) -> Result<Value, PrometheusError> {
        let body = self.get(path)?;
        let mut answer: Value = serde_json::from_str(&body)
            .map_err(|error| self.failed(format!("the answer to {path} is no JSON: {error}")))?;
        Ok(answer["data"].take())
    }

    /// Names of the alerts that are firing, each once, sorted.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn firing(&self) -> Result<Vec<String>, PrometheusError> {
        let alerts = self.api("/api/v1/alerts")?;
        let firing =
            alerts["alerts"].as_array().into_iter().flatten().filter(|alert| alert["state"] == "firing");
        let mut names: Vec<String> =
            firing.filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned())).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn get(&self, path: &str) -> Result<String, PrometheusError> {
        let answer = self.host.inside(|| fetch(Self::ADDRESS, path, Self::ANSWER_TIMEOUT))?;
        answer.map_err(|error| self.failed(error.to_string()))
    }

    /// With its last words, which are usually the reason.
    fn failed(&self, mut reason: String) -> PrometheusError {
        let written = self.process.stderr().unwrap_or_default();
        if let Some(words) = written.lines().rfind(|line| !line.trim().is_empty()) {
            write!(reason, "; its last words: {}", words.trim()).unwrap_or_default();
        }
        PrometheusError::Answer { program: self.program.clone(), reason }
    }
}

/// The job is called as the alerts expect it.
fn configuration(setup: &Setup, protobuf: Protobuf) -> String {
    let protocols =
        if protobuf == Protobuf::Setting { "    scrape_protocols: [PrometheusProto]\n" } else { "" };
    let interval = format!("{}ms", setup.interval.as_millis());
    let rules: String = setup
        .rules
        .iter()
        .filter_map(|path| path.file_name())
        .map(|name| format!("  - {}\n", name.to_string_lossy()))
        .collect();
    format!(
        "global:\n  scrape_interval: {interval}\n  scrape_timeout: {interval}\n  evaluation_interval: {interval}\n\
         rule_files:\n{rules}\
         scrape_configs:\n  - job_name: pendulum\n{protocols}    static_configs:\n      - targets: ['{}']\n",
        setup.target
    )
}

/// Rules with every window (`[5m]`) and waiting time (`for: 5m`) shorter by a factor. Nothing else is touched, so the rules
/// that are shown are the rules that are shipped.
fn hurried(rules: &str, factor: u32) -> String {
    if factor <= 1 {
        return rules.to_owned();
    }
    let shorter = |minutes: u32| format!("{}ms", u64::from(minutes) * 60_000 / u64::from(factor));
    rules
        .lines()
        .map(|line| {
            let waiting = line
                .trim_start()
                .split_once(": ")
                .filter(|(key, _)| matches!(*key, "for" | "keep_firing_for"));
            let line =
                match waiting.and_then(|(key, time)| Some((key, time.strip_suffix('m')?.parse().ok()?))) {
                    Some((key, minutes)) => {
                        let indent = &line[..line.len() - line.trim_start().len()];
                        format!("{indent}{key}: {}", shorter(minutes))
                    }
                    None => line.to_owned(),
                };
            windows(&line, shorter) + "\n"
        })
        .collect()
}

/// Each `[5m]` of a line replaced.
fn windows(line: &str, shorter: impl Fn(u32) -> String) -> String {
    let mut parts = line.split('[');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push('[');
        match part.split_once("m]").and_then(|(minutes, rest)| Some((minutes.parse().ok()?, rest))) {
            Some((minutes, rest)) => {
                text.push_str(&shorter(minutes));
                text.push(']');
                text.push_str(rest);
            }
            None => text.push_str(part),
        }
    }
    text
}

/// For a query string (RFC 3986, 2.1).
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_windows_and_waiting_times_are_hurried() {
        let rules = "      - alert: A\n        expr: rate(a{b=\"[5m]x\"}[5m]) > avg_over_time(c[30m])\n        for: 10m\n        \
                     keep_firing_for: 2m\n        summary: 'for: 5m'\n";
        let wanted = "      - alert: A\n        expr: rate(a{b=\"[5000ms]x\"}[5000ms]) > avg_over_time(c[30000ms])\n        for: 10000ms\n        \
                      keep_firing_for: 2000ms\n        summary: 'for: 5m'\n";
        assert_eq!(hurried(rules, 60), wanted);
        assert_eq!(hurried(rules, 1), rules);
    }

    #[test]
    fn queries_are_escaped() {
        assert_eq!(escaped("a{b=\"c\"}"), "a%7Bb%3D%22c%22%7D");
    }
}
