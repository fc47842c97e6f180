//! TLS: who is understood, and what is said of files that are of no use.

use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion, version};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::exit::{Classified as _, Exit};

const CERTIFICATE: &str = include_str!("../../../../../tests/data/tls/certificate.pem");
const KEY: &str = include_str!("../../../../../tests/data/tls/key.pem");
const OTHER_KEY: &str = include_str!("../../../../../tests/data/tls/other-key.pem");

/// The certificate and a key in files of their own.
fn files(certificate: &str, key: &str) -> (tempfile::TempDir, TlsFiles) {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let tls = TlsFiles { certificate: file("certificate.pem", certificate), key: file("key.pem", key) };
    (directory, tls)
}

struct Encrypted {
    address: SocketAddr,
    _stop: watch::Sender<bool>,
}

impl Encrypted {
    async fn start(limits: Limits) -> Self {
        let (_files, tls) = files(CERTIFICATE, KEY);
        let (_stop, stopping) = watch::channel(false);
        let listener = Listener::bind(LOOPBACK).await.unwrap().secured(Some(&tls)).unwrap();
        assert_eq!(listener.scheme(), "https");
        let address = listener.address;
        let router = Router::new().route("/", get(async || "here"));
        tokio::spawn(serve_within(limits, listener, router, stopping));
        Self { address, _stop }
    }

    async fn connect(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("gateway.example").unwrap();
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

#[tokio::test]
async fn the_certificate_is_shown_and_the_answer_encrypted() {
    let server = Encrypted::start(LIMITS).await;
    for (offered, expected) in
        [(&version::TLS12, ProtocolVersion::TLSv1_2), (&version::TLS13, ProtocolVersion::TLSv1_3)]
    {
        let mut stream = server.connect(&[offered]).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(expected));
        let request = b"GET / HTTP/1.1\r\nhost: gateway.example\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        // The server may end without a word of TLS.
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("here"), "{answer:?}");
    }
}

#[tokio::test]
async fn who_speaks_no_tls_gets_nothing_and_holds_nobody_up() {
    let server = Encrypted::start(Limits { connections: 1, ..LIMITS }).await;
    let mut plain = TestClient(TcpStream::connect(server.address).await.unwrap());
    plain.ask("/").await;
    let answer = async {
        let mut bytes = Vec::new();
        let _ = plain.0.read_to_end(&mut bytes).await;
        bytes
    };
    let bytes = tokio::time::timeout(PATIENCE, answer).await.expect("the end");
    assert!(!bytes.windows(4).any(|part| part == b"HTTP" || part == b"here"), "{bytes:?}");
    // Its place is free again.
    tokio::time::timeout(PATIENCE, server.connect(&[&version::TLS13])).await.expect("a place").unwrap();
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_not_waited_for() {
    let limits = Limits { connections: 1, handshake: Duration::from_millis(30), ..LIMITS };
    let server = Encrypted::start(limits).await;
    for beginning in [&b""[..], &[0x16, 3, 1]] {
        let mut silent = TestClient(TcpStream::connect(server.address).await.unwrap());
        silent.0.write_all(beginning).await.unwrap();
        assert_eq!(silent.read().await, "");
    }
}

#[tokio::test]
async fn without_a_certificate_nothing_is_encrypted() {
    let listener = Listener::bind(LOOPBACK).await.unwrap();
    assert_eq!(listener.secured(None).unwrap().scheme(), "http");
}

/// Which key of the configuration is meant, which file, and what helps.
#[test]
fn files_that_are_of_no_use_are_named() {
    let readable = "it must be a PEM file that the agent may read";
    let matching = "give the key that the first certificate of tls-certificate was made for";
    for (certificate, key, meant, reason, remedy) in [
        ("", KEY, "http.tls-certificate", "holds no certificate", readable),
        // A key is no certificate, and a certificate is no key.
        (KEY, KEY, "http.tls-certificate", "holds no certificate", readable),
        (CERTIFICATE, CERTIFICATE, "http.tls-key", "", readable),
        (CERTIFICATE, "", "http.tls-key", "", readable),
        (CERTIFICATE, OTHER_KEY, "http.tls-key", "", matching),
    ] {
        let (_files, tls) = files(certificate, key);
        check(&tls, meant, reason, remedy);
    }
    let (_files, good) = files(CERTIFICATE, KEY);
    let gone = Path::new("/nonexistent/file.pem").to_owned();
    check(&TlsFiles { key: gone.clone(), ..good.clone() }, "http.tls-key", "", readable);
    check(&TlsFiles { certificate: gone, ..good }, "http.tls-certificate", "", readable);
}

fn check(tls: &TlsFiles, meant: &str, reason: &str, remedy: &str) {
    let Err(error) = Identity::read(tls) else { panic!("{tls:?} is of use") };
    let (message, file) =
        (error.to_string(), if meant == "http.tls-key" { &tls.key } else { &tls.certificate });
    let rest = message.strip_prefix(&format!("{meant} {}: ", file.display()));
    let rest = rest.unwrap_or_else(|| panic!("not of {meant}: {message}"));
    let (why, help) = rest.rsplit_once("; ").unwrap();
    assert!(!why.is_empty() && why.starts_with(reason), "{message}");
    assert_eq!((help, error.exit()), (remedy, Exit::Config), "{message}");
}
