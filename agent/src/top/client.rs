//! The little HTTP that is needed: one GET on a connection of its own, answered whole or as a stream.

use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::address::Address;

/// Why there is no answer, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: String,
    pub(super) remedy: &'static str,
    /// The agent is there but does not know the path.
    pub(super) unknown_path: bool,
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
        Self::new(format!("what answers there is no pendulum agent: {what}"), "is this the right port?")
    }
}

/// Asks one agent.
#[derive(Clone, Debug)]
pub(super) struct Client {
    address: Address,
    /// Shown with every request.
    token: Option<HeaderValue>,
}

impl Client {
    /// Longest silence: of a connection attempt, before an answer begins, and inside it.
    const PATIENCE: Duration = Duration::from_secs(5);
    /// An answer above this is not one of an agent's.
    const MOST_BYTES: usize = 16 << 20;

    pub(super) fn new(address: Address, token: Option<HeaderValue>) -> Self {
        Self { address, token }
    }

    /// `GET path`, read as JSON.
    pub(super) async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
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
    pub(super) async fn stream(&self, path: &str) -> Result<Body, Trouble> {
        self.get(path, "text/event-stream").await
    }

    async fn get(&self, path: &str, accept: &str) -> Result<Body, Trouble> {
        let mut request = Request::get(self.address.target(path))
            .header(HOST, self.address.authority())
            .header(ACCEPT, accept)
            .header(USER_AGENT, concat!("pendulum-top/", env!("CARGO_PKG_VERSION")))
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
                Err(Trouble::new(reason, "the agent's log may tell more."))
            }
        }
    }

    async fn send(&self, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>, Trouble> {
        let target = (self.address.host(), self.address.port());
        let stream = TcpStream::connect(target).await.map_err(|error| Trouble::unreachable(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| Trouble::broken(&error))?;
        // Ends with the answer; its error is that of the answer.
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(|error| {
            if error.is_parse() { Trouble::not_an_agent(error) } else { Trouble::broken(&error) }
        })
    }
}

/// An agent's own words on why it does not answer as asked (docs/api.md).
fn refusal(body: &[u8]) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    let word = |name: &str| answer["error"][name].as_str();
    Some(format!(": {}; {}", word("reason")?, word("remedy")?))
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Body {
    body: Incoming,
}

impl Body {
    /// Its next part, or none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
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
