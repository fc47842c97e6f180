//! Token, certificate and key: files that are read at the start and, at SIGHUP, again from the same paths.

use std::fmt;
use std::path::Path;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;

use super::tls::Identity;
use super::{Access, Listener, SecretError};
use crate::config::HttpConfig;
use crate::exit::Exit;

/// A token that can be guessed protects nothing.
const SHORTEST_TOKEN: usize = 16;
const LONGEST_TOKEN: usize = 512;

/// The secrets in use. The listener and the access check share them, so a renewed one takes effect with the next connection or
/// request.
#[derive(Clone, Debug)]
pub struct Secrets {
    token: Option<watch::Sender<Token>>,
    identity: Option<watch::Sender<Identity>>,
}

/// What the files hold now.
#[derive(Debug)]
pub struct Renewed {
    token: Option<Token>,
    identity: Option<Identity>,
}

impl Secrets {
    /// Those that are in use by these two.
    pub fn of(listener: &Listener, access: &Access) -> Self {
        Self { token: access.token.clone(), identity: listener.identity.clone() }
    }

    /// Reads the files again whose paths are the same in both configurations. Another path waits for a restart.
    ///
    /// # Errors
    /// A file cannot be used. Nothing has changed then.
    pub fn read_again(&self, current: &HttpConfig, wanted: &HttpConfig) -> Result<Renewed, SecretError> {
        let token_file = wanted
            .token_file
            .as_deref()
            .filter(|_| self.token.is_some() && current.token_file == wanted.token_file);
        let tls = wanted.tls.as_ref().filter(|_| self.identity.is_some() && current.tls == wanted.tls);
        Ok(Renewed {
            token: token_file.map(Token::read).transpose()?,
            identity: tls.map(Identity::read).transpose()?,
        })
    }

    /// Uses what was read. Returns the configuration keys whose content is another one now.
    pub fn adopt(&self, renewed: Renewed) -> Vec<String> {
        let mut changed = Vec::new();
        if replaced(self.token.as_ref(), renewed.token) {
            changed.push("http.token-file (new content)".to_owned());
        }
        if replaced(self.identity.as_ref(), renewed.identity) {
            changed.push("http.tls-certificate, http.tls-key (new content)".to_owned());
        }
        changed
    }
}

fn replaced<T: PartialEq>(used: Option<&watch::Sender<T>>, read: Option<T>) -> bool {
    let (Some(used), Some(read)) = (used, read) else { return false };
    used.send_if_modified(|used| {
        let differs = *used != read;
        *used = read;
        differs
    })
}

/// A bearer token. It is never shown.
#[derive(PartialEq)]
pub(super) struct Token(Vec<u8>);

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token")
    }
}

impl Token {
    pub(super) fn read(file: &Path) -> Result<Self, SecretError> {
        let error = |reason: String, remedy, exit| SecretError {
            key: "http.token-file",
            file: file.to_owned(),
            reason,
            remedy,
            exit,
        };
        let text = std::fs::read_to_string(file).map_err(|source| {
            let remedy = "name a file that the agent may read, or leave the key out";
            error(format!("cannot be read: {source}"), remedy, Exit::NoInput)
        })?;
        let token = text.trim();
        let make = "make one with `openssl rand -hex 32`";
        if !(SHORTEST_TOKEN..=LONGEST_TOKEN).contains(&token.len()) {
            let reason = format!(
                "holds {} characters, and a token has {SHORTEST_TOKEN} to {LONGEST_TOKEN}",
                token.len()
            );
            return Err(error(reason, make, Exit::Config));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(error("holds more than visible ASCII characters".to_owned(), make, Exit::Config));
        }
        Ok(Self(token.as_bytes().to_vec()))
    }

    /// In constant time: how long the answer takes tells nothing about the token.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some((scheme, sent)) =
            headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.split_once(' '))
        else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer") && bool::from(sent.trim().as_bytes().ct_eq(&self.0))
    }
}

#[cfg(test)]
mod tests;
