//! The limits of [`super::Limits`], over real connections on the loopback device.

mod encrypted;
mod refused;

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::*;

/// What docs/reference/api.md promises, and what the agent can afford: descriptors for 128 clients, a scrape's time for those that are slow.
#[test]
fn the_limits_are_those_of_the_documentation() {
    let Limits { connections, bytes, patience, handshake, head, stall, age, last_answer } = LIMITS;
    let seconds = [patience, handshake, head, stall, age, last_answer].map(|limit| limit.as_secs_f64());
    assert_eq!((connections, bytes, seconds), (128, 16 << 20, [0.5, 10.0, 20.0, 20.0, 600.0, 2.0]));
    assert_eq!((MAX_HEAD, MAX_HEADERS), (16_384, 64));
    let page = include_str!("../../../../docs/reference/api.md");
    for part in [
        "431 for a head above 16 KiB or 64 headers",
        "A connection ends after ten minutes",
        "At most 128 connections, and 16 MiB of answers that were not read yet",
        "sends no request or reads nothing for 20 s is closed",
    ] {
        assert!(page.contains(part), "docs/reference/api.md does not say: {part}");
    }
}

/// Generous: a test that waits for so long has found a defect.
const PATIENCE: Duration = Duration::from_secs(60);

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    /// Lets one answer of `/later` go.
    later: Arc<Notify>,
}

impl Server {
    async fn start(limits: Limits) -> Self {
        let (stop, stopping) = watch::channel(false);
        let later = Arc::new(Notify::new());
        let wait = Arc::clone(&later);
        let router = Router::new().route("/", get(async || "here")).route(
            "/later",
            get(async move || {
                wait.notified().await;
                "at last"
            }),
        );
        let listener = Listener::bind(LOOPBACK).await.unwrap();
        assert_eq!(listener.scheme(), "http");
        let address = listener.address;
        let task = tokio::spawn(serve_within(limits, listener, router, stopping));
        Self { address, stop, task, later }
    }

    async fn connect(&self) -> TestClient {
        TestClient(TcpStream::connect(self.address).await.unwrap())
    }
}

struct TestClient(TcpStream);

impl TestClient {
    async fn ask(&mut self, path: &str) {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// What comes next; nothing if the connection is closed.
    async fn read(&mut self) -> String {
        let mut buffer = vec![0; 4096];
        let read =
            tokio::time::timeout(PATIENCE, self.0.read(&mut buffer)).await.expect("an answer or the end");
        String::from_utf8(buffer[..read.unwrap_or(0)].to_vec()).unwrap()
    }

    async fn is_answered(&mut self) {
        let answer = self.read().await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
    }

    /// Reads so many bytes.
    async fn is_read_on(&mut self, bytes: usize) {
        let read = async { self.0.read_exact(&mut vec![0; bytes]).await.expect("an answer without an end") };
        tokio::time::timeout(PATIENCE, read).await.expect("it goes on");
    }

    /// Whether something has come, or the connection is closed.
    fn has_news(&self) -> bool {
        self.0.try_read(&mut [0; 1]).is_ok()
    }
}

#[tokio::test]
async fn one_connection_too_many_waits_until_another_one_is_closed() {
    let server = Server::start(Limits { connections: 3, patience: PATIENCE, ..LIMITS }).await;
    let mut served = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect().await;
        client.ask("/").await;
        client.is_answered().await;
        served.push(client);
    }
    let mut fourth = server.connect().await;
    fourth.ask("/").await;
    // The others are served on, many times, and it is not.
    for _ in 0..100 {
        for client in &mut served {
            client.ask("/").await;
            client.is_answered().await;
        }
    }
    assert!(!fourth.has_news(), "more connections than allowed");
    drop(served.pop());
    fourth.is_answered().await;
}

/// With every place taken, who has said nothing for the longest makes room; who is being answered does not.
#[tokio::test]
async fn the_client_that_is_waited_for_longest_makes_room() {
    let server = Server::start(Limits { connections: 3, patience: Duration::ZERO, ..LIMITS }).await;
    let mut busy = server.connect().await;
    busy.ask("/later").await;
    let mut silent = server.connect().await;
    let mut idle = server.connect().await;
    idle.ask("/").await;
    idle.is_answered().await;
    let mut new = server.connect().await;
    new.ask("/").await;
    new.is_answered().await;
    assert_eq!(silent.read().await, "", "it is closed");
    let mut newer = server.connect().await;
    newer.ask("/").await;
    newer.is_answered().await;
    assert_eq!(idle.read().await, "", "it is closed");
    server.later.notify_one();
    busy.is_answered().await;
}

/// Where memory runs out, who has not read a large answer for the longest makes room at once; the others are answered on.
#[tokio::test]
async fn answers_that_nobody_reads_are_bounded() {
    const ANSWER: usize = 4 << 20;
    let router = Router::new()
        .route("/large", get(async || vec![b'x'; ANSWER]))
        .route("/", get(async || "here"))
        .layer(axum::middleware::map_response(crate::http::answer::weigh));
    let (_stop, stopping) = watch::channel(false);
    let listener = Listener::bind(LOOPBACK).await.unwrap();
    let address = listener.address;
    let limits = Limits { bytes: 2 * ANSWER + 1_024, patience: PATIENCE, stall: PATIENCE, ..LIMITS };
    tokio::spawn(serve_within(limits, listener, router, stopping));
    let mut readers = Vec::new();
    for _ in 0..3 {
        let mut client = TestClient(TcpStream::connect(address).await.unwrap());
        client.ask("/large").await;
        client.is_answered().await;
        readers.push(client);
    }
    let mut other = TestClient(TcpStream::connect(address).await.unwrap());
    other.ask("/").await;
    other.is_answered().await;
    let mut rest = Vec::new();
    let _ =
        tokio::time::timeout(PATIENCE, readers.remove(0).0.read_to_end(&mut rest)).await.expect("the end");
    assert!(rest.len() < ANSWER / 2, "the first one made room for the third, after {} bytes", rest.len());
    for client in &mut readers {
        client.is_read_on(ANSWER - 4_096).await;
    }
}

/// There is room, and still a client that reads nothing is cut off after a while.
#[tokio::test]
async fn who_reads_nothing_is_cut_off() {
    struct Answer(Arc<AtomicUsize>);
    impl Drop for Answer {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    let endless = async move || {
        let answer = Answer(Arc::clone(&count));
        Body::from_stream(futures_util::stream::iter(std::iter::repeat_with(move || {
            let _held = &answer;
            Ok::<_, Infallible>(vec![b'x'; 1_024])
        })))
    };
    let (_stop, stopping) = watch::channel(false);
    let listener = Listener::bind(LOOPBACK).await.unwrap();
    let address = listener.address;
    let limits = Limits { stall: Duration::from_millis(30), ..LIMITS };
    tokio::spawn(serve_within(limits, listener, Router::new().route("/", get(endless)), stopping));
    let mut client = TestClient(TcpStream::connect(address).await.unwrap());
    client.ask("/").await;
    let cut_off = async {
        while ended.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, cut_off).await.expect("it is not waited for");
}

/// As many as an agent has to serve at once are served.
#[tokio::test]
async fn as_many_connections_as_allowed_are_served_at_once() {
    let server = Server::start(Limits { patience: PATIENCE, ..LIMITS }).await;
    let mut clients = Vec::new();
    for _ in 0..LIMITS.connections {
        let mut client = server.connect().await;
        client.ask("/").await;
        client.is_answered().await;
        clients.push(client);
    }
    let mut next = server.connect().await;
    next.ask("/").await;
    clients[0].ask("/").await;
    clients[0].is_answered().await;
    assert!(!next.has_news());
    clients.clear();
    next.is_answered().await;
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for() {
    let server = Server::start(Limits { head: Duration::from_millis(30), ..LIMITS }).await;
    for beginning in ["", "GET / HTTP/1.1\r\nhost: ", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
        let mut client = server.connect().await;
        client.send(beginning).await;
        if beginning.ends_with("\r\n\r\n") {
            client.is_answered().await;
        }
        // Closed; a refusal may come before.
        while !client.read().await.is_empty() {}
    }
}

#[tokio::test]
async fn an_old_connection_is_closed_even_in_the_middle_of_an_answer() {
    let short = Duration::from_millis(30);
    let server = Server::start(Limits { age: short, last_answer: short, ..LIMITS }).await;
    let mut client = server.connect().await;
    client.ask("/later").await;
    assert_eq!(client.read().await, "", "its answer never came");
    let mut idle = server.connect().await;
    assert_eq!(idle.read().await, "");
}

#[tokio::test]
async fn a_head_is_bounded() {
    let server = Server::start(LIMITS).await;
    let filler = |bytes: usize| format!("x: {}\r\n", "y".repeat(bytes));
    for (headers, expected) in [
        (filler(MAX_HEAD - 200), "200"),
        (filler(MAX_HEAD + 1), "431"),
        // One is `host`.
        ("a: b\r\n".repeat(MAX_HEADERS - 1), "200"),
        ("a: b\r\n".repeat(MAX_HEADERS), "431"),
    ] {
        let mut client = server.connect().await;
        client.send(&format!("GET / HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")).await;
        let answer = client.read().await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{} bytes: {answer:?}", headers.len());
    }
}

#[tokio::test]
async fn the_last_answer_is_given_before_the_end() {
    let server = Server::start(Limits { last_answer: PATIENCE, ..LIMITS }).await;
    let (mut idle, mut busy) = (server.connect().await, server.connect().await);
    idle.ask("/").await;
    idle.is_answered().await;
    busy.ask("/later").await;
    // Another request shows that the one before it has been taken.
    idle.ask("/").await;
    idle.is_answered().await;
    server.stop.send_replace(true);
    assert_eq!(idle.read().await, "", "nothing more is to come");
    assert!(!server.task.is_finished());
    server.later.notify_one();
    let answer = busy.read().await;
    assert!(answer.ends_with("at last"), "{answer:?}");
    tokio::time::timeout(PATIENCE, server.task).await.expect("all are closed").unwrap();
}

#[tokio::test]
async fn the_end_does_not_wait_for_ever() {
    let server = Server::start(Limits { last_answer: Duration::from_millis(30), ..LIMITS }).await;
    let mut busy = server.connect().await;
    busy.ask("/later").await;
    let mut other = server.connect().await;
    other.ask("/").await;
    other.is_answered().await;
    server.stop.send_replace(true);
    tokio::time::timeout(PATIENCE, server.task).await.expect("cut off").unwrap();
    assert_eq!(busy.read().await, "");
}

/// The one that the agent calls, with the limits it has.
#[tokio::test]
async fn the_agent_serves_until_it_is_asked_to_stop() {
    let (stop, stopping) = watch::channel(false);
    let listener = Listener::bind(LOOPBACK).await.unwrap();
    let address = listener.address;
    assert_ne!(address.port(), 0, "the real port is told");
    let task = tokio::spawn(serve(listener, Router::new().route("/", get(async || "here")), stopping));
    let mut client = TestClient(TcpStream::connect(address).await.unwrap());
    client.ask("/").await;
    client.is_answered().await;
    assert!(!task.is_finished());
    stop.send_replace(true);
    assert_eq!(client.read().await, "");
    tokio::time::timeout(PATIENCE, task).await.expect("the end").unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

/// What waits in the kernel is old when it is read, so a client that reads late gets newer figures.
#[tokio::test]
async fn little_waits_for_a_client_that_does_not_read() {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    bound_unsent(&stream);
    assert_eq!(SockRef::from(&stream).tcp_notsent_lowat().unwrap(), 16_384);
}

/// A reader that stops takes no more of an endless answer than what its own window, the kernel's bound and one buffer of the
/// server hold.
#[tokio::test]
async fn an_endless_answer_waits_for_its_reader() {
    const CHUNK: usize = 1_024;
    const WINDOW: usize = 64 * 1_024;
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let endless = async move || {
        let chunks = std::iter::repeat_with(move || {
            count.fetch_add(CHUNK, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(vec![b'x'; CHUNK])
        });
        Body::from_stream(futures_util::stream::iter(chunks))
    };
    let (_stop, stopping) = watch::channel(false);
    let listener = Listener::bind(LOOPBACK).await.unwrap();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    // The kernel doubles it, for its own bookkeeping.
    socket.set_recv_buffer_size(WINDOW as u32 / 2).unwrap();
    let address = listener.address;
    tokio::spawn(serve(listener, Router::new().route("/", get(endless)), stopping));
    let mut client = TestClient(socket.connect(address).await.unwrap());
    client.ask("/").await;
    client.is_answered().await;
    // It stands still once it did not move while other things happened for a while.
    let mut before = 0;
    while before != made.load(Ordering::Relaxed) {
        before = made.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Twice the kernel's bound: it counts whole segments, which are 64 KiB at most on this device.
    let most = WINDOW + 64 * 1_024 + 2 * MAX_UNSENT as usize + 2 * MAX_HEAD;
    assert!((CHUNK..=most).contains(&before), "{before} bytes were made for a client that does not read");
    // More than there was: it goes on with its reader.
    client.is_read_on(2 * before).await;
}
