//! Which certificates are believed: the system's authorities, or what the user names.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Trouble;
use crate::exit::{Exit, Failure};

/// How an agent is asked over TLS.
#[derive(Clone, Debug)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// With the authorities of `file`, or of the system.
    pub(super) fn new(file: Option<&Path>) -> Result<Self, Failure> {
        config(file).map(Self)
    }

    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Trouble> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| Trouble::new(format!("the host of the URL: {error}"), "check the URL"))?;
        let connected = TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await;
        connected.map_err(|error| trouble(&error))
    }
}

/// TLS 1.2 and 1.3.
fn config(file: Option<&Path>) -> Result<Arc<ClientConfig>, Failure> {
    let certificates = match file {
        Some(file) => read(file)?,
        // What the system has and cannot read is nothing to stop for: the certificate that needs it is refused, with a reason.
        None => rustls_native_certs::load_native_certs().certs,
    };
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(certificates.iter().cloned());
    if let Some(file) = file.filter(|_| roots.is_empty()) {
        let reason =
            format!("--ca {}: holds no certificate that can be used ({unusable} tried)", file.display());
        return Err(Failure::new(Exit::Data, format!("{reason}; it must be a PEM file")));
    }
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(
            Exit::Software,
            format!("cannot prepare TLS: {error}; this is a defect: please report it"),
        )
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    if roots.is_empty() {
        return Err(Failure::new(
            Exit::Unavailable,
            "this system has no certificate authorities: install ca-certificates, or name the agent's with --ca FILE",
        ));
    }
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| failed(&error))?;
    let known = if file.is_some() { certificates } else { Vec::new() };
    let verifier = Verifier { chains, known, provider };
    Ok(Arc::new(
        builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth(),
    ))
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    certificates.map_err(|error| {
        Failure::new(Exit::NoInput, format!("--ca {}: {error}; name a readable PEM file", file.display()))
    })
}

/// As usual; and a certificate that the user named in person is believed although it is nobody's: `openssl req -x509` makes
/// an authority of what is to be a server's certificate, which the usual rules refuse.
#[derive(Debug)]
struct Verifier {
    chains: Arc<WebPkiServerVerifier>,
    known: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self.chains.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        if !matches!(verdict, Err(Error::InvalidCertificate(CertificateError::Other(_))))
            || !self.known.contains(end_entity)
        {
            return verdict;
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a handshake failed, and what helps.
fn trouble(error: &std::io::Error) -> Trouble {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext,
        UnknownIssuer,
    };
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let reason = tls.map_or_else(|| error.to_string(), ToString::to_string);
    let (what, remedy) = match tls {
        Some(Error::InvalidCertificate(problem)) => (
            "its certificate is not believed",
            match problem {
                UnknownIssuer => {
                    "name its authority with --ca FILE, or the certificate itself if nobody signed it"
                }
                NotValidForName | NotValidForNameContext { .. } => {
                    "use a name in the URL that the certificate has"
                }
                Expired | ExpiredContext { .. } => "renew the certificate; is the clock right here?",
                NotValidYet | NotValidYetContext { .. } => "is the clock right, here and there?",
                _ => "give the agent a certificate of yours and name it with --ca FILE",
            },
        ),
        Some(Error::InvalidMessage(_)) => ("no TLS is spoken there", "does the URL begin with http://?"),
        _ => ("no TLS connection", "is an agent there, and does it have http.tls-certificate?"),
    };
    Trouble::new(format!("{what}: {reason}"), remedy)
}
