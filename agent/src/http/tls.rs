//! TLS for listeners that others can reach.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;
use crate::exit::{Classified, Exit};

/// Certificate or key cannot be used.
#[derive(Debug, Error)]
#[error("{key} {}: {reason}; {remedy}", file.display())]
pub struct TlsError {
    key: &'static str,
    file: PathBuf,
    reason: String,
    remedy: &'static str,
}

impl Classified for TlsError {
    fn exit(&self) -> Exit {
        Exit::Config
    }
}

const CERTIFICATE: &str = "http.tls-certificate";
const KEY: &str = "http.tls-key";

/// Reads certificate and key, and checks that they belong together. TLS 1.2 and 1.3.
pub(super) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, TlsError> {
    let problem = |key, reason: String, remedy| TlsError {
        key,
        file: if key == KEY { tls.key.clone() } else { tls.certificate.clone() },
        reason,
        remedy,
    };
    let unreadable = "it has to be a PEM file that the agent may read";
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
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| {
            problem(
                KEY,
                error.to_string(),
                "give the key that the first certificate of tls-certificate was made for",
            )
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
