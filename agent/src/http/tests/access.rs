//! Who is let in, at the edges.

use super::*;
use crate::exit::Classified as _;

const WIDE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn with_token(content: &str) -> (tempfile::NamedTempFile, HttpConfig) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    let config = HttpConfig { token_file: Some(file.path().to_owned()), ..HttpConfig::default() };
    (file, config)
}

#[test]
fn a_token_has_16_to_512_characters() {
    for (length, is_one) in [(15, false), (16, true), (512, true), (513, false)] {
        // White space around it is none of it.
        let (_file, config) = with_token(&format!(" {}\n\n", "x".repeat(length)));
        let access = Access::new(&config, LOCAL);
        assert_eq!(access.is_ok(), is_one, "{length}");
        match access {
            Ok(access) => assert!(access.has_token()),
            Err(error) => assert_eq!(error.exit(), Exit::Config, "{length}"),
        }
    }
    assert!(!Access::new(&HttpConfig::default(), LOCAL).unwrap().has_token());
    let gone = HttpConfig { token_file: Some("/nonexistent/token".into()), ..HttpConfig::default() };
    assert_eq!(Access::new(&gone, LOCAL).expect_err("no file").exit(), Exit::NoInput);
    assert!(!format!("{:?}", Access::new(&with_token("0123456789abcdef").1, LOCAL)).contains("0123"));
}

#[tokio::test]
async fn a_refusal_says_whether_a_token_came() {
    let (_file, config) = with_token("0123456789abcdef");
    for (sent, status, part) in [
        (None, 401, "wants a token"),
        (Some("Bearer 0123456789abcdeF"), 401, "not the token"),
        (Some("Bearer 0123456789abcdef0"), 401, "not the token"),
        (Some("0123456789abcdef"), 401, "not the token"),
        (Some("Bearer  0123456789abcdef "), 200, ""),
    ] {
        let request = Request::get("/api/v1/flows");
        let request = sent.into_iter().fold(request, |request, sent| request.header("authorization", sent));
        let (code, _, body) =
            ask(guarded(vec![], &config, LOCAL), request.body(Body::empty()).unwrap()).await;
        assert_eq!(code.as_u16(), status, "{sent:?}");
        assert!(body.contains(part), "{sent:?}: {body}");
    }
}

/// A page elsewhere can point its own name at this machine, but not at an address; collectors read nothing that is anybody's.
#[tokio::test]
async fn names_are_checked_where_addresses_of_hosts_could_leave() {
    let config = HttpConfig { names: vec!["gateway.example".to_owned()], ..HttpConfig::default() };
    for (path, local, wide) in [
        ("/metrics", 421, 200),
        ("/healthz", 421, 200),
        ("/readyz", 421, 503),
        ("/api/v1/state", 421, 421),
        ("/api/v1/stream", 421, 421),
        ("/", 421, 421),
    ] {
        for (listen, expected) in [(LOCAL, local), (WIDE, wide)] {
            let request = Request::get(path).header("host", "evil.example:9924").body(Body::empty()).unwrap();
            let (status, ..) = ask(guarded(vec![], &config, listen), request).await;
            assert_eq!(status.as_u16(), expected, "{listen} {path}");
        }
    }
    for (host, expected) in [
        ("gateway.example", 200),
        ("sub.gateway.example", 421),
        ("localhost.", 200),
        ("localhost:", 200),
        ("localhost:9924x", 421),
        ("[::1]", 200),
        ("[2001:db8::1]:80", 200),
        ("[::1", 421),
        ("1.2.3.4.5", 421),
        ("\u{e4}", 421),
    ] {
        let host_header = axum::http::HeaderValue::from_bytes(host.as_bytes()).unwrap();
        let request = Request::get("/api/v1/flows").header("host", host_header).body(Body::empty()).unwrap();
        let (status, ..) = ask(guarded(vec![], &config, WIDE), request).await;
        assert_eq!(status.as_u16(), expected, "{host}");
    }
    // HTTP/1.0 needs no name, and no browser speaks it.
    let request = Request::get("/api/v1/flows").body(Body::empty()).unwrap();
    assert_eq!(ask(guarded(vec![], &config, LOCAL), request).await.0, StatusCode::OK);
}

/// Loopback addresses of both families are this machine's alone; every other one can be reached.
#[tokio::test]
async fn only_loopback_is_this_machine_s_alone() {
    for (listen, expected) in
        [("127.0.0.1", 421), ("127.8.8.8", 421), ("::1", 421), ("::", 200), ("192.0.2.1", 200)]
    {
        let request = Request::get("/metrics").header("host", "evil.example").body(Body::empty()).unwrap();
        let router = guarded(vec![], &HttpConfig::default(), listen.parse().unwrap());
        assert_eq!(ask(router, request).await.0.as_u16(), expected, "{listen}");
    }
}

/// What is shown of a path or a name that somebody sends is bounded.
#[test]
fn what_others_send_is_shortened() {
    let of = |length: usize| answer::shortened(&"\u{e4}".repeat(length));
    for length in [0, 1, 80] {
        assert_eq!(of(length), "\u{e4}".repeat(length));
    }
    for length in [81, 5_000] {
        assert_eq!(of(length), format!("{}…", "\u{e4}".repeat(80)), "{length}");
    }
}
