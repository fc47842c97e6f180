//! Who is let in: by name, against DNS rebinding, and by token.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::watch;

use super::SecretError;
use super::answer::{Refusal, shortened};
use super::page;
use super::secrets::Token;
use crate::config::HttpConfig;

/// Who may read.
#[derive(Debug)]
pub struct Access {
    names: Vec<String>,
    /// Only this machine can reach the listener.
    is_local: bool,
    pub(super) token: Option<watch::Sender<Token>>,
}

impl Access {
    /// Reads the token, if one is configured. `address`: where the listener is bound.
    ///
    /// # Errors
    /// The file cannot be read, or what it holds is no token.
    pub fn new(config: &HttpConfig, address: IpAddr) -> Result<Self, SecretError> {
        let token = config.token_file.as_deref().map(Token::read).transpose()?;
        let token = token.map(watch::Sender::new);
        Ok(Self { names: config.names.clone(), is_local: address.is_loopback(), token })
    }

    /// Everybody on this machine, without a token.
    #[cfg(test)]
    pub(super) fn local() -> Self {
        Self { names: Vec::new(), is_local: true, token: None }
    }

    /// Whether clients have to send a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    fn refusal(&self, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
        let path = uri.path();
        if let Some(host) = asked_host(uri, headers)
            && !self.knows(host)
            && (self.is_local || !is_for_collectors(path))
        {
            let refusal = Refusal {
                status: StatusCode::MISDIRECTED_REQUEST,
                reason: format!("this agent does not go by the name {}", shortened(host)),
                remedy: "ask by address or as localhost, or add the name to `names` under [http] in the configuration"
                    .to_owned(),
            };
            return Some(refusal.into_response());
        }
        let token = self.token.as_ref()?;
        // The page's files hold nothing that is measured; it asks for the token itself.
        if path == "/healthz" || page::is_asset(path) || token.borrow().is_in(headers) {
            return None;
        }
        let refusal = Refusal {
            status: StatusCode::UNAUTHORIZED,
            reason: if headers.contains_key(AUTHORIZATION) {
                "this is not the token of this agent"
            } else {
                "this agent wants a token"
            }
            .to_owned(),
            remedy:
                "send `Authorization: Bearer TOKEN` with the content of the file named by http.token-file"
                    .to_owned(),
        };
        Some(([(WWW_AUTHENTICATE, "Bearer realm=\"pendulum\"")], refusal).into_response())
    }

    /// A page elsewhere can make its own name point to this machine (DNS rebinding); it cannot do so with an address
    /// or with `localhost`.
    fn knows(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
        bare.parse::<IpAddr>().is_ok() || host == "localhost" || self.names.contains(&host)
    }
}

/// The host a client asked for, without its port. None in HTTP/1.0 without a `Host`, which no browser sends.
fn asked_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    if let Some(host) = uri.host() {
        return Some(host);
    }
    let host = headers.get(HOST)?;
    // What is no text is no name of ours either.
    let host = host.to_str().unwrap_or("?");
    Some(match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    })
}

/// No address of a host leaves through these, and collectors use whatever name they were given.
fn is_for_collectors(path: &str) -> bool {
    matches!(path, "/metrics" | "/healthz" | "/readyz")
}

/// Lets a request through, or answers it.
pub(super) async fn admit(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match access.refusal(request.uri(), request.headers()) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}
