//! In the place of `tls` in builds without it: a configured certificate is refused.

use super::SecretError;
use crate::config::TlsFiles;
use crate::exit::Exit;

/// There is none.
#[derive(Debug, PartialEq)]
pub(super) enum Identity {}

/// There is none.
pub(super) enum Acceptor {}

impl Identity {
    pub(super) fn acceptor(&self) -> Acceptor {
        match *self {}
    }

    pub(super) fn read(tls: &TlsFiles) -> Result<Self, SecretError> {
        Err(SecretError {
            key: "http.tls-certificate",
            file: tls.certificate.clone(),
            reason: "this build of pendulum has no TLS".to_owned(),
            remedy: "remove tls-certificate and tls-key, or build it with the feature `tls`",
            exit: Exit::Config,
        })
    }
}

impl Acceptor {
    pub(super) async fn accept<S>(&self, _: S) -> std::io::Result<S> {
        match *self {}
    }
}
