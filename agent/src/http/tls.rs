//! TLS for listeners that others can reach.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
pub(super) use tokio_rustls::TlsAcceptor as Acceptor;

use super::SecretError;
use crate::config::TlsFiles;
use crate::exit::Exit;

const CERTIFICATE: &str = "http.tls-certificate";
const KEY: &str = "http.tls-key";

/// Certificate and key as they were read.
pub(super) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    acceptor: Acceptor,
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain && self.key == other.key
    }
}

/// The key is never shown.
impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Identity")
    }
}

impl Identity {
    /// What new connections are accepted with.
    pub(super) fn acceptor(&self) -> Acceptor {
        self.acceptor.clone()
    }

    /// Reads certificate and key, and checks that they belong together. TLS 1.2 and 1.3.
    pub(super) fn read(tls: &TlsFiles) -> Result<Self, SecretError> {
        let problem = |key, reason: String, remedy| SecretError {
            key,
            file: if key == KEY { tls.key.clone() } else { tls.certificate.clone() },
            reason,
            remedy,
            exit: Exit::Config,
        };
        let unreadable = "it must be a PEM file that the agent may read";
        let chain: Vec<_> = CertificateDer::pem_file_iter(&tls.certificate)
            .and_then(Iterator::collect)
            .map_err(|error| problem(CERTIFICATE, error.to_string(), unreadable))?;
        if chain.is_empty() {
            return Err(problem(CERTIFICATE, "holds no certificate".to_owned(), unreadable));
        }
        let key = PrivateKeyDer::from_pem_file(&tls.key)
            .map_err(|error| problem(KEY, error.to_string(), unreadable))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder.with_no_client_auth().with_single_cert(chain.clone(), key.clone_key())
            })
            .map_err(|error| {
                problem(
                    KEY,
                    error.to_string(),
                    "give the key that the first certificate of tls-certificate was made for",
                )
            })?;
        Ok(Self { chain, key, acceptor: Acceptor::from(Arc::new(config)) })
    }
}
