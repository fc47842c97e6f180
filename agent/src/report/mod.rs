//! `pendulum report`: one file for a request for help, without addresses.

mod redact;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::client::{AgentUrl, Client, Credentials};
use crate::config::DEFAULT_FILE;
use crate::doctor;
use crate::exit::{Exit, Failure, answer, to_json};
use redact::Redaction;

/// Writes one JSON object for a request for help: the checks of `doctor`, the configuration, and the running agent's state, events and incidents.
/// Addresses and names of hosts are replaced by numbers. Read it before you send it. A part that is unavailable says why.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportOptions {
    /// Also check this network device
    #[arg(long, value_name = "DEV")]
    wan: Option<String>,
    /// Configuration file of the agent
    #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
    config: PathBuf,
    /// The agent, as http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9924")]
    url: AgentUrl,
    #[command(flatten)]
    credentials: Credentials,
}

/// Incidents that are sent whole, the newest: up to 300 kB each.
const INCIDENTS: usize = 3;

/// Keys whose values name hosts: `http.names`, the homes of flows, where the delay is.
const NAMES: [&str; 3] = ["names", "home_host", "host"];

/// Collects the parts and prints them.
///
/// # Errors
/// A file of the credentials is unusable, or the output cannot be written.
pub(crate) fn report(options: &ReportOptions) -> Result<ExitCode, Failure> {
    let client = Client::new(options.url.clone(), &options.credentials)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::Os, format!("cannot start the event loop: {error}; raise `ulimit -n`"))
    })?;
    let mut report = runtime.block_on(async {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "architecture": std::env::consts::ARCH,
            "doctor": doctor::examine(options.wan.as_deref()).await,
            "configuration": configuration(&options.config),
            "state": ask(&client, "/api/v1/state").await,
            "events": ask(&client, "/api/v1/events").await,
            "incidents": incidents(&client).await,
        })
    });
    Redaction::default().apply(&mut report, &NAMES);
    answer(&to_json(&report)?)?;
    Ok(ExitCode::SUCCESS)
}

/// What an unavailable part is replaced by.
fn unavailable(reason: impl std::fmt::Display) -> Value {
    json!({"unavailable": reason.to_string()})
}

/// The file's keys, without comments. It has paths of secrets, never their content.
fn configuration(file: &Path) -> Value {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return unavailable(format!("{}: {error}", file.display())),
    };
    match toml::from_str::<toml::Table>(&text).map(serde_json::to_value) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => unavailable(format!("{}: {error}", file.display())),
        // The error quotes the line.
        Err(error) => unavailable(format!("{}: {error}", file.display())),
    }
}

async fn ask(client: &Client, path: &str) -> Value {
    client
        .json(path)
        .await
        .unwrap_or_else(|trouble| unavailable(format!("{}; {}", trouble.reason, trouble.remedy)))
}

/// The list of incidents, with the newest ones in whole.
async fn incidents(client: &Client) -> Value {
    let mut list = ask(client, "/api/v1/incidents").await;
    let kept = list.get_mut("incidents").and_then(Value::as_array_mut);
    for incident in kept.into_iter().flatten().take(INCIDENTS) {
        let id = incident["id"].as_str().unwrap_or_default();
        incident["recording"] = ask(client, &format!("/api/v1/incidents/{id}")).await;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_unavailable_says_why() {
        let missing = configuration(Path::new("/nonexistent/pendulum.toml"));
        assert!(missing["unavailable"].as_str().unwrap().starts_with("/nonexistent/pendulum.toml: "));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pendulum.toml");
        std::fs::write(&file, "[[link]]\nwan = \"ppp0\"\n# a comment\n").unwrap();
        assert_eq!(configuration(&file), json!({"link": [{"wan": "ppp0"}]}));
        std::fs::write(&file, "[[link\n").unwrap();
        assert!(configuration(&file)["unavailable"].is_string());
    }

    /// Five incidents: the newest three are read whole.
    #[test]
    fn the_newest_incidents_are_whole() {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..=INCIDENTS {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let read = stream.read(&mut request).unwrap();
                let request = String::from_utf8_lossy(&request[..read]).into_owned();
                let path = request.split(' ').nth(1).unwrap();
                let body = match path.strip_prefix("/api/v1/incidents/") {
                    Some(id) => json!({"recorded": id}),
                    None => json!({"incidents": (0..5).map(|id| json!({"id": id.to_string()})).collect::<Vec<_>>()}),
                }
                .to_string();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
            }
        });
        let url: AgentUrl = format!("http://{address}").parse().unwrap();
        let client = Client::new(url, &Credentials::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let list = runtime.block_on(incidents(&client));
        server.join().unwrap();
        let recordings: Vec<_> =
            list["incidents"].as_array().unwrap().iter().map(|one| &one["recording"]).collect();
        assert_eq!(
            recordings[..3],
            [&json!({"recorded": "0"}), &json!({"recorded": "1"}), &json!({"recorded": "2"})]
        );
        assert!(recordings[3..].iter().all(|one| one.is_null()), "{list}");
    }
}
