use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::HeaderValue;

use super::*;
use crate::config::TlsFiles;

const CERTIFICATE: &str = include_str!("../../../../tests/data/tls/certificate.pem");
const KEY: &str = include_str!("../../../../tests/data/tls/key.pem");
const OTHER_KEY: &str = include_str!("../../../../tests/data/tls/other-key.pem");
const FIRST: &str = "0123456789abcdef";
const SECOND: &str = "fedcba9876543210";

/// A listener and an access check over files in a directory of their own.
struct AccessRig {
    directory: tempfile::TempDir,
    config: HttpConfig,
    access: Access,
    secrets: Secrets,
}

impl AccessRig {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let tls = TlsFiles { certificate: path("certificate.pem"), key: path("key.pem") };
        let config = HttpConfig { token_file: Some(path("token")), tls: Some(tls), ..HttpConfig::default() };
        for (name, content) in [("token", FIRST), ("certificate.pem", CERTIFICATE), ("key.pem", KEY)] {
            std::fs::write(path(name), content).unwrap();
        }
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let listener = Listener::bind(SocketAddr::new(loopback, 0)).await.unwrap();
        let listener = listener.secured(config.tls.as_ref()).unwrap();
        let access = Access::new(&config, loopback).unwrap();
        let secrets = Secrets::of(&listener, &access);
        Self { directory, config, access, secrets }
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.directory.path().join(name), content).unwrap();
    }

    fn reload(&self, wanted: &HttpConfig) -> Result<Vec<String>, String> {
        let renewed = self.secrets.read_again(&self.config, wanted).map_err(|error| error.to_string())?;
        Ok(self.secrets.adopt(renewed))
    }

    fn takes(&self, token: &str) -> bool {
        let sent = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
        let headers = HeaderMap::from_iter([(AUTHORIZATION, sent)]);
        self.access.token.as_ref().unwrap().borrow().is_in(&headers)
    }
}

#[tokio::test]
async fn a_renewed_token_replaces_the_old_one() {
    let rig = AccessRig::new().await;
    assert_eq!(rig.reload(&rig.config), Ok(vec![]), "nothing is new");
    rig.write("token", SECOND);
    assert_eq!(rig.reload(&rig.config), Ok(vec!["http.token-file (new content)".to_owned()]));
    assert_eq!((rig.takes(FIRST), rig.takes(SECOND)), (false, true));
}

#[tokio::test]
async fn one_bad_file_keeps_all_old_ones() {
    let rig = AccessRig::new().await;
    rig.write("token", SECOND);
    for (key, certificate, meant) in [
        (OTHER_KEY, CERTIFICATE, "http.tls-key"),
        ("", CERTIFICATE, "http.tls-key"),
        (KEY, "", "http.tls-certificate"),
    ] {
        rig.write("key.pem", key);
        rig.write("certificate.pem", certificate);
        let reason = rig.reload(&rig.config).expect_err(meant);
        assert!(reason.starts_with(meant), "{reason}");
        assert_eq!((rig.takes(FIRST), rig.takes(SECOND)), (true, false));
    }
    rig.write("key.pem", KEY);
    rig.write("certificate.pem", CERTIFICATE);
    rig.write("token", "short");
    assert!(rig.reload(&rig.config).expect_err("no token").starts_with("http.token-file"));
    assert!(rig.takes(FIRST));
}

/// Another path waits for a restart, whatever is there; the old file may be gone by then.
#[tokio::test]
async fn another_path_is_not_read() {
    let rig = AccessRig::new().await;
    rig.write("token", "short");
    rig.write("key.pem", "no key");
    let wanted =
        HttpConfig { token_file: Some("/nonexistent/token".into()), tls: None, ..HttpConfig::default() };
    assert_eq!(rig.reload(&wanted), Ok(vec![]));
    assert!(rig.takes(FIRST));
}

#[tokio::test]
async fn a_chain_with_one_more_certificate_is_another_identity() {
    let rig = AccessRig::new().await;
    rig.write("certificate.pem", &format!("{CERTIFICATE}\n{CERTIFICATE}"));
    assert_eq!(
        rig.reload(&rig.config),
        Ok(vec!["http.tls-certificate, http.tls-key (new content)".to_owned()])
    );
}

#[test]
fn secrets_are_not_shown() {
    let token = Token(FIRST.into());
    assert_eq!(format!("{token:?}"), "Token");
}
