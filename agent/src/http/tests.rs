mod access;
mod answers;
mod figures;
mod flows;
mod incidents;
mod shape;
mod unknown;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use super::*;
use crate::config::Config;
use crate::config::HttpConfig;
use crate::snapshot::{LinkSnapshot, example};

fn app(links: Vec<LinkSnapshot>) -> Router {
    guarded(links, &HttpConfig::default(), LOCAL)
}

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn guarded(links: Vec<LinkSnapshot>, config: &HttpConfig, listen: IpAddr) -> Router {
    let (journal, stopping) = (Journal::new(None), watch::channel(false).1);
    let active = Active::start(Config::default()).1;
    let app = App::new(example::board(links), journal, active, true, stopping);
    router(Arc::new(app), Access::new(config, listen).unwrap())
}

async fn ask(router: Router, request: Request<Body>) -> (StatusCode, HeaderMap, String) {
    use hyper::service::Service as _;
    let response = TowerToHyperService::new(router).call(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(path: &str) -> (StatusCode, Value) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let (status, headers, body) = ask(app(vec![example::link("dsl")]), request).await;
    assert_eq!(headers[CONTENT_TYPE], "application/json");
    (status, serde_json::from_str(&body).unwrap())
}

#[tokio::test]
async fn state_tells_of_bufferbloat_and_what_fills_the_buffers() {
    let (_, state) = get("/api/v1/state").await;
    let link = &state["links"][0];
    for (pointer, expected) in [
        ("/evidence/missing/0", "base_round_trip".into()),
        ("/base_round_trip_proven", false.into()),
        ("/standing_delay_s/up", 0.35.into()),
        ("/standing_delay_s/down", Value::Null),
        ("/bufferbloat/up/delay_s", 0.35.into()),
        ("/bufferbloat/up/cause/kind", "udp".into()),
        ("/bufferbloat/up/cause/share", 0.87.into()),
        ("/bufferbloat/up/help", "shape it".into()),
        ("/bufferbloat/down", Value::Null),
        ("/directions/up/queue/composition/tcp_data", 0.125.into()),
        ("/directions/up/queue/composition/udp", 0.875.into()),
        ("/directions/up/queue/top_port/name", "UDP port 443".into()),
        ("/directions/up/queue/top_port/share", 0.75.into()),
    ] {
        assert_eq!(link.pointer(pointer), Some(&expected), "{pointer} in {link:#}");
    }
}

#[tokio::test]
async fn findings_of_a_link_that_is_not_measured_are_unknown() {
    let mut silent = example::link("dsl");
    silent.findings = None;
    let request = Request::get("/api/v1/state").body(Body::empty()).unwrap();
    let (_, _, body) = ask(app(vec![silent]), request).await;
    let link = &serde_json::from_str::<Value>(&body).unwrap()["links"][0];
    for field in ["phase", "phase_share", "phase_seconds", "verdict", "evidence", "advice", "unfair"] {
        assert_eq!(link.get(field), Some(&Value::Null), "{field}");
    }
    assert_eq!(link.pointer("/throughput_ratio/measured"), Some(&Value::Null));
}

#[tokio::test]
async fn wrong_requests_get_a_reason_and_a_remedy() {
    for (path, status, part) in [
        ("/api/v1/flows?limit=0", 400, "limit=0 is out of range"),
        ("/api/v1/flows?limit=1000000", 400, "out of range"),
        ("/api/v1/flows?limit=-1", 400, "limit"),
        ("/api/v1/flows?limt=5", 400, "limt"),
        ("/api/v1/flows?sort=size", 400, "size"),
        ("/api/v1/flows?link=lte", 400, "there is no link lte"),
        ("/api/v2/state", 404, "there is no /api/v2/state"),
    ] {
        let (code, body) = get(path).await;
        assert_eq!(code.as_u16(), status, "{path}");
        let error = &body["error"];
        assert_eq!(error["status"], status);
        assert!(error["reason"].as_str().unwrap().contains(part), "{path}: {error}");
        assert!(!error["remedy"].as_str().unwrap().is_empty());
    }
    let (_, body) = get(&format!("/{}", "x".repeat(4_000))).await;
    assert!(body["error"]["reason"].as_str().unwrap().len() < 200);
}

#[tokio::test]
async fn only_reading_is_allowed() {
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let request = Request::builder().method(method).uri("/metrics").body(Body::empty()).unwrap();
        let (status, headers, body) = ask(app(vec![]), request).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(headers["allow"], "GET,HEAD");
        assert!(body.contains("use GET"), "{body}");
    }
}

#[tokio::test]
async fn ready_means_attached_and_sampled() {
    let ready = example::link("dsl");
    let mut detached = ready.clone();
    detached.hooks = None;
    detached.trouble = Some("network device `wan0` does not exist".into());
    let mut not_sampled = ready.clone();
    not_sampled.read_at = None;
    let hanging = hanging(ready.clone());
    let missing = LinkSnapshot { device: DeviceState::Missing, ..detached.clone() };
    for (links, expected, if_idle_is_fine) in [
        (vec![ready.clone()], 200, 200),
        (vec![detached.clone(), ready.clone()], 200, 200),
        (vec![hanging.clone(), ready], 200, 200),
        (vec![detached.clone()], 503, 503),
        (vec![not_sampled], 503, 503),
        (vec![hanging.clone()], 503, 503),
        // Nothing is to be measured on this machine.
        (vec![missing.clone()], 503, 200),
        (vec![missing.clone(), hanging], 503, 503),
        (vec![missing, detached], 503, 503),
    ] {
        for (path, expected) in [("/readyz", expected), ("/readyz?idle=ok", if_idle_is_fine)] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let (status, _, body) = ask(app(links.clone()), request).await;
            assert_eq!(status.as_u16(), expected, "{path}: {body}");
        }
    }
    let request = Request::get("/readyz?idle=no").body(Body::empty()).unwrap();
    assert_eq!(ask(app(vec![]), request).await.0, StatusCode::BAD_REQUEST);
}

/// A link whose thread was held up for eleven seconds.
fn hanging(link: LinkSnapshot) -> LinkSnapshot {
    let read_at = Instant::now().checked_sub(HANGS + Duration::from_secs(1));
    assert!(read_at.is_some(), "the machine has run for so long");
    LinkSnapshot { read_at, ..link }
}

#[tokio::test]
async fn healthy_means_that_what_is_attached_is_read() {
    let well = example::link("dsl");
    let mut waiting = hanging(well.clone());
    waiting.hooks = None;
    for (links, expected, said) in [
        (vec![], 200, "ok\n"),
        (vec![well.clone(), waiting], 200, "ok\n"),
        (vec![hanging(well.clone()), well], 503, "a link was not read for 10 s\n"),
    ] {
        let request = Request::get("/healthz").body(Body::empty()).unwrap();
        let (status, _, body) = ask(app(links), request).await;
        assert_eq!((status.as_u16(), &*body), (expected, said));
    }
}

#[tokio::test]
async fn metrics_come_in_the_format_asked_for() {
    for (accept, content_type) in [
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ] {
        let request = Request::get("/metrics").header(ACCEPT, accept).body(Body::empty()).unwrap();
        let (status, headers, body) = ask(app(vec![example::link("dsl")]), request).await;
        assert_eq!((status, &headers[CONTENT_TYPE]), (StatusCode::OK, &content_type.parse().unwrap()));
        assert!(body.ends_with("# EOF\n"));
    }
}

#[tokio::test]
async fn the_page_loads_its_own_files_only_and_each_once() {
    for (path, content_type, part) in [
        ("/", "text/html; charset=utf-8", "<title>Pendulum</title>"),
        ("/page.js", "text/javascript; charset=utf-8", "Leon Sorokin"),
        ("/page.css", "text/css; charset=utf-8", "--up"),
        ("/icon.svg", "image/svg+xml", "<svg"),
    ] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let (status, headers, body) = ask(app(vec![]), request).await;
        assert_eq!((status, &headers[CONTENT_TYPE]), (StatusCode::OK, &content_type.parse().unwrap()));
        assert!(body.contains(part), "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers[CACHE_CONTROL], "no-cache");

        let again = Request::get(path).header("if-none-match", &headers["etag"]).body(Body::empty()).unwrap();
        let (status, _, body) = ask(app(vec![]), again).await;
        assert_eq!((status, body.as_str()), (StatusCode::NOT_MODIFIED, ""));
        let other = Request::get(path).header("if-none-match", "\"other\"").body(Body::empty()).unwrap();
        assert_eq!(ask(app(vec![]), other).await.0, StatusCode::OK);
    }
}

#[tokio::test]
async fn foreign_names_are_refused() {
    let config = HttpConfig { names: vec!["gateway.example".to_owned()], ..HttpConfig::default() };
    let wide: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    for (listen, path, host, expected) in [
        (LOCAL, "/api/v1/flows", "127.0.0.1:9924", 200),
        (LOCAL, "/api/v1/flows", "[::1]:9924", 200),
        (LOCAL, "/api/v1/flows", "192.0.2.1", 200),
        (LOCAL, "/api/v1/flows", "LocalHost:9924", 200),
        (LOCAL, "/api/v1/flows", "Gateway.example.:80", 200),
        (LOCAL, "/api/v1/flows", "evil.example", 421),
        (LOCAL, "/api/v1/flows", "127.0.0.1.evil.example:9924", 421),
        (LOCAL, "/metrics", "evil.example", 421),
        (LOCAL, "/", "", 421),
        (wide, "/api/v1/flows", "evil.example", 421),
        (wide, "/metrics", "gw.monitoring.example", 200),
    ] {
        let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
        let (status, _, body) = ask(guarded(vec![], &config, listen), request).await;
        assert_eq!(status.as_u16(), expected, "{listen} {path} {host}: {body}");
        assert!(expected == 200 || body.contains("add the name to `names`"), "{body}");
    }
    let absolute =
        Request::get("http://evil.example/metrics").header("host", "127.0.0.1").body(Body::empty());
    assert_eq!(ask(app(vec![]), absolute.unwrap()).await.0, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn a_token_is_asked_for_everywhere_but_in_the_page_s_files_and_health() {
    let token = "0123456789abcdef0123456789abcdef";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{token}\n")).unwrap();
    let config = HttpConfig { token_file: Some(file.path().to_owned()), ..HttpConfig::default() };
    for (path, sent, expected) in [
        ("/metrics", None, 401),
        ("/readyz", None, 401),
        ("/api/v1/flows", Some("Bearer 0123456789abcdef0123456789abcdeF"), 401),
        ("/api/v1/flows", Some("Bearer 0123456789abcdef"), 401),
        ("/api/v1/flows", Some("Basic 0123456789abcdef0123456789abcdef"), 401),
        ("/nothing", None, 401),
        ("/api/v1/flows", Some("bearer 0123456789abcdef0123456789abcdef"), 200),
        ("/metrics", Some("Bearer 0123456789abcdef0123456789abcdef"), 200),
        ("/", None, 200),
        ("/page.js", None, 200),
        ("/healthz", None, 200),
    ] {
        let mut request = Request::get(path);
        if let Some(sent) = sent {
            request = request.header("authorization", sent);
        }
        let (status, headers, body) =
            ask(guarded(vec![], &config, LOCAL), request.body(Body::empty()).unwrap()).await;
        assert_eq!(status.as_u16(), expected, "{path} {sent:?}");
        assert!(!body.contains(token), "{body}");
        assert_eq!(headers.contains_key("www-authenticate"), expected == 401);
    }
}

#[test]
fn what_is_no_token_is_refused_at_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = HttpConfig { token_file: Some(file.path().to_owned()), ..HttpConfig::default() };
    for (content, part) in [
        ("", "holds 0 characters"),
        ("secret\n", "holds 6 characters"),
        ("two words, and long enough", "visible ASCII"),
        (&"x".repeat(600), "holds 600 characters"),
    ] {
        std::fs::write(file.path(), content).unwrap();
        let error = Access::new(&config, LOCAL).expect_err(content).to_string();
        assert!(error.contains(part) && error.contains("openssl rand"), "{error}");
        assert!(content.is_empty() || !error.contains(content.trim()), "{error}");
    }
    drop(file);
    let error = Access::new(&config, LOCAL).expect_err("no file").to_string();
    assert!(error.starts_with("http.token-file /") && error.contains("cannot be read"), "{error}");
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_can_read_it() {
    for (path, accept, expected) in [
        ("/metrics", "gzip, deflate", Some("gzip")),
        ("/page.js", "gzip", Some("gzip")),
        ("/metrics", "identity", None),
        ("/metrics", "gzip;q=0", None),
        ("/healthz", "gzip", None),
    ] {
        let request = Request::get(path).header("accept-encoding", accept).body(Body::empty()).unwrap();
        let response = hyper::service::Service::call(
            &TowerToHyperService::new(app(vec![example::link("dsl")])),
            request,
        );
        let headers = response.await.unwrap().into_parts().0.headers;
        let encoding = headers.get("content-encoding").map(|value| value.to_str().unwrap());
        assert_eq!(encoding, expected, "{path} {accept}");
    }
}
