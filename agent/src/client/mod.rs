//! Asks an agent, here or elsewhere: the little HTTP that is needed. One GET on a connection of its own, over TLS where the URL says so,
//! answered whole or as a stream.

mod address;
#[cfg(feature = "tls")]
mod trust;
#[cfg(not(feature = "tls"))]
#[path = "no_trust.rs"]
mod trust;

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use pendulum_wire::Refused;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::exit::{Exit, Failure};

pub(crate) use address::AgentUrl;

/// What it takes to be let in, and to believe who answers.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Credentials {
    /// File with the token that the agent wants (its http.token-file)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with the authority of the agent's certificate, or that certificate itself [default: the system's
    /// authorities]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Credentials {
    /// The option that is given although nobody is asked.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [("--token-file", self.token_file.is_some()), ("--ca", self.ca.is_some())];
        given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }
}

/// Why there is no answer, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) reason: String,
    pub(crate) remedy: &'static str,
    /// The agent is there but does not know the path.
    pub(crate) unknown_path: bool,
}

impl Trouble {
    fn new(reason: impl Into<String>, remedy: &'static str) -> Self {
        Self { reason: reason.into(), remedy, unknown_path: false }
    }

    fn broken(error: &impl std::fmt::Display) -> Self {
        Self::new(format!("the connection broke: {error}"), "is the agent still running?")
    }

    fn silent() -> Self {
        Self::new(
            format!("no answer within {} s", Client::PATIENCE.as_secs()),
            "is the machine reachable, and not overloaded?",
        )
    }

    fn unreachable(error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
        let remedy = match error.kind() {
            ConnectionRefused => {
                "is the agent running there (`systemctl status pendulum`), and is this its port?"
            }
            HostUnreachable | NetworkUnreachable => "is there a route to that machine?",
            _ => "is the name right?",
        };
        Self::new(format!("cannot connect: {error}"), remedy)
    }

    fn not_an_agent(what: impl std::fmt::Display) -> Self {
        let remedy = "is this the right port? If the agent has a certificate, its URL begins with https://";
        Self::new(format!("what answers there is no pendulum agent: {what}"), remedy)
    }
}

/// Asks one agent.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: AgentUrl,
    /// Shown with every request.
    token: Option<HeaderValue>,
    /// For https.
    tls: Option<trust::Tls>,
}

impl Client {
    /// Longest silence: of a connection attempt, before an answer begins, and inside it.
    const PATIENCE: Duration = Duration::from_secs(5);
    /// An answer above this is not one of an agent's.
    const MOST_BYTES: usize = 16 << 20;

    /// For this agent.
    ///
    /// # Errors
    /// A file of the credentials cannot be used.
    pub(crate) fn new(address: AgentUrl, credentials: &Credentials) -> Result<Self, Failure> {
        let token = credentials.token_file.as_deref().map(read_token).transpose()?;
        let authority = credentials.ca.as_deref();
        let tls = address.is_https().then(|| trust::Tls::new(authority)).transpose()?;
        if let (None, Some(file)) = (&tls, authority) {
            let reason = format!("--ca {}: {address} is not asked over TLS", file.display());
            return Err(Failure::new(Exit::Usage, format!("{reason}; its URL would begin with https://")));
        }
        Ok(Self { address, token, tls })
    }

    /// `GET path`, read as JSON.
    pub(crate) async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        let mut body = self.get(path, "application/json").await?;
        let mut bytes = Vec::new();
        while let Some(part) = body.next().await? {
            bytes.extend_from_slice(&part);
            if bytes.len() > Self::MOST_BYTES {
                return Err(Trouble::not_an_agent("it does not stop talking"));
            }
        }
        serde_json::from_slice(&bytes).map_err(|error| Trouble::not_an_agent(format!("{path}: {error}")))
    }

    /// `GET path`, an answer that does not end.
    #[cfg(feature = "top")]
    pub(crate) async fn stream(&self, path: &str) -> Result<Body, Trouble> {
        self.get(path, "text/event-stream").await
    }

    async fn get(&self, path: &str, accept: &str) -> Result<Body, Trouble> {
        let mut request = Request::get(self.address.target(path))
            .header(HOST, self.address.authority())
            .header(ACCEPT, accept)
            .header(USER_AGENT, concat!("pendulum/", env!("CARGO_PKG_VERSION")))
            .body(Empty::<Bytes>::new())
            .map_err(|error| Trouble::new(format!("{path} cannot be asked for: {error}"), "check the URL"))?;
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        let response = timeout(Self::PATIENCE, self.send(request)).await.map_err(|_| Trouble::silent())??;
        match response.status() {
            StatusCode::OK => Ok(Body { body: response.into_body() }),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Trouble::new(
                if self.token.is_some() {
                    "this is not the agent's token"
                } else {
                    "the agent wants a token"
                },
                "give the content of its http.token-file with --token-file",
            )),
            StatusCode::NOT_FOUND => {
                Err(Trouble { unknown_path: true, ..Trouble::not_an_agent(format!("{path}: not found")) })
            }
            status => {
                let mut body = Body { body: response.into_body() };
                let why =
                    body.next().await.ok().flatten().and_then(|part| refusal(&part)).unwrap_or_default();
                let reason = format!("{path} is answered with {status}{why}");
                Err(Trouble::new(reason, "see the agent's log."))
            }
        }
    }

    async fn send(&self, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>, Trouble> {
        let target = (self.address.host(), self.address.port());
        let stream = TcpStream::connect(target).await.map_err(|error| Trouble::unreachable(&error))?;
        let Some(tls) = &self.tls else { return exchange(stream, request).await };
        exchange(tls.connect(self.address.host(), stream).await?, request).await
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Empty<Bytes>>,
) -> Result<Response<Incoming>, Trouble> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| Trouble::broken(&error))?;
    // Ends with the answer; its error is that of the answer.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(|error| {
        if error.is_parse() { Trouble::not_an_agent(error) } else { Trouble::broken(&error) }
    })
}

/// The header that shows the token.
fn read_token(file: &Path) -> Result<HeaderValue, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(Exit::NoInput, format!("--token-file {}: {error}; name a readable file", file.display()))
    })?;
    let mut header = HeaderValue::try_from(format!("Bearer {}", text.trim())).map_err(|_| {
        let file = file.display();
        Failure::new(
            Exit::Data,
            format!("--token-file {file}: holds no token: one line of visible ASCII characters"),
        )
    })?;
    header.set_sensitive(true);
    Ok(header)
}

/// An agent's own words on why it does not answer as asked (docs/reference/api.md).
fn refusal(body: &[u8]) -> Option<String> {
    let Refused { error } = serde_json::from_slice(body).ok()?;
    (!error.reason.is_empty()).then(|| format!(": {}; {}", error.reason, error.remedy))
}

/// An answer on its way.
#[derive(Debug)]
pub(crate) struct Body {
    body: Incoming,
}

impl Body {
    /// Its next part, or none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
        loop {
            let frame = timeout(Client::PATIENCE, self.body.frame()).await.map_err(|_| Trouble::silent())?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(Trouble::broken(&error)),
                // Trailers carry nothing here.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}
