//! What all answers have in common.

use std::io::Read as _;

use super::*;

async fn answered(router: Router, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
    use hyper::service::Service as _;
    let request =
        headers.iter().fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
    let request = request.body(Body::empty()).unwrap();
    let (head, body) = TowerToHyperService::new(router).call(request).await.unwrap().into_parts();
    (head.status, head.headers, axum::body::to_bytes(body, 1 << 22).await.unwrap().to_vec())
}

/// Whatever is answered, a browser must not guess, frame, refer or load what is not ours.
#[tokio::test]
async fn every_answer_keeps_browsers_careful() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0123456789abcdef").unwrap();
    let config = HttpConfig { token_file: Some(file.path().to_owned()), ..HttpConfig::default() };
    let bearer = ("authorization", "Bearer 0123456789abcdef");
    for (path, headers, status) in [
        ("/", vec![], 200),
        ("/metrics", vec![bearer], 200),
        ("/healthz", vec![], 200),
        ("/readyz", vec![bearer], 200),
        ("/api/v1/state", vec![bearer], 200),
        ("/api/v1/flows", vec![bearer], 200),
        ("/api/v1/events", vec![bearer], 200),
        ("/api/v1/events?limit=0", vec![bearer], 400),
        ("/api/v1/state", vec![], 401),
        ("/nothing", vec![bearer], 404),
        // A right token does not make a foreign name a known one.
        ("/api/v1/state", vec![bearer, ("host", "evil.example")], 421),
    ] {
        let router = guarded(vec![example::link("dsl")], &config, LOCAL);
        let (code, found, body) = answered(router, path, &headers).await;
        assert_eq!(code.as_u16(), status, "{path} {headers:?}");
        assert!(!body.is_empty(), "{path}");
        assert_eq!(found["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(found["referrer-policy"], "no-referrer", "{path}");
        let policy = found["content-security-policy"].to_str().unwrap();
        let mut rules = policy.split("; ");
        assert_eq!(rules.next(), Some("default-src 'none'"));
        let rules: Vec<_> = rules.map(|rule| rule.split_once(' ').unwrap()).collect();
        for (name, value) in &rules {
            assert!(["'none'", "'self'", "'script'"].contains(value), "{name} {value}");
        }
        for forbidden in ["frame-ancestors", "base-uri", "form-action", "trusted-types"] {
            assert!(rules.contains(&(forbidden, "'none'")), "{forbidden}");
        }
        assert!(rules.contains(&("require-trusted-types-for", "'script'")), "{policy}");
    }
}

/// What was measured is old at once: nobody keeps it.
#[tokio::test]
async fn measurements_are_not_kept_and_lines_end() {
    for path in ["/api/v1/state", "/api/v1/flows", "/api/v1/events", "/readyz", "/healthz", "/nothing"] {
        let (_, headers, body) = answered(app(vec![example::link("dsl")]), path, &[]).await;
        assert_eq!(headers[CACHE_CONTROL], "no-store", "{path}");
        assert_eq!(body.iter().filter(|byte| **byte == b'\n').count(), 1, "{path}");
        assert_eq!(body.last(), Some(&b'\n'), "{path}");
    }
    let (status, headers, body) = answered(app(vec![]), "/healthz", &[]).await;
    assert_eq!((status, body.as_slice()), (StatusCode::OK, &b"ok\n"[..]));
    assert_eq!(headers[CONTENT_TYPE], "text/plain; charset=utf-8");
}

/// A cache between may hold one format for those who want the other.
#[tokio::test]
async fn metrics_vary_with_what_is_accepted() {
    let (_, headers, _) = answered(app(vec![]), "/metrics", &[]).await;
    let vary = headers.get_all(VARY).iter().map(|value| value.to_str().unwrap().to_ascii_lowercase());
    assert!(vary.into_iter().any(|value| value.split(',').any(|name| name.trim() == "accept")));
}

/// Packed and unpacked it is the same file.
#[tokio::test]
async fn what_is_compressed_can_be_read_again() {
    for path in ["/page.js", "/page.css", "/"] {
        let (_, _, plain) = answered(app(vec![]), path, &[]).await;
        let (_, headers, packed) = answered(app(vec![]), path, &[("accept-encoding", "gzip")]).await;
        assert_eq!(headers["content-encoding"], "gzip", "{path}");
        assert!(packed.len() < plain.len(), "{path}");
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain, "{path}");
    }
}

#[tokio::test]
async fn a_refusal_tells_its_status_in_head_and_body() {
    for (path, method, status, reason, remedy) in [
        ("/nothing", "GET", 404, "there is no /nothing", "the start page at /"),
        ("/metrics", "PUT", 405, "/metrics does not take PUT", "use GET"),
        (
            "/api/v1/flows?limit=10001",
            "GET",
            400,
            "limit=10001 is out of range",
            "limit=1…10000, sort=rate|bytes, link=NAME",
        ),
        (
            "/api/v1/events?limit=1001",
            "GET",
            400,
            "limit=1001 is out of range",
            "limit=1…1000, since=NUMBER, link=NAME",
        ),
        ("/api/v1/stream?link=x", "GET", 400, "there is no link x", "use link=NAME"),
    ] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let (code, headers, body) = ask(app(vec![example::link("dsl")]), request).await;
        assert_eq!((code.as_u16(), &headers[CONTENT_TYPE]), (status, &"application/json".parse().unwrap()));
        let body: Value = serde_json::from_str(&body).unwrap();
        let error = body["error"].as_object().unwrap();
        assert_eq!(error.keys().collect::<Vec<_>>(), ["reason", "remedy", "status"], "{path}");
        assert_eq!((&error["status"], &error["reason"]), (&status.into(), &reason.into()), "{path}");
        assert!(error["remedy"].as_str().unwrap().contains(remedy), "{path}: {error:?}");
    }
}

/// Who asks for the head alone gets the head alone.
#[tokio::test]
async fn a_head_has_no_body() {
    for path in ["/", "/metrics", "/api/v1/state", "/healthz"] {
        let request = Request::head(path).body(Body::empty()).unwrap();
        let (status, headers, body) = ask(app(vec![example::link("dsl")]), request).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, ""), "{path}");
        assert!(headers.contains_key(CONTENT_TYPE), "{path}");
    }
}
