//! Asks the agent, on a thread of its own, and tries again as long as it has to.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::client::{Client, Trouble};
use crate::exit::Exit;

use super::sse::{Reader, ServerEvent};
use pendulum_wire::{Flows, History, Link, State, Tick};

/// What the view has for putting the terminal in order.
const LAST_MOMENT: Duration = Duration::from_millis(500);

/// What has come from the agent.
#[derive(Debug)]
pub(super) enum News {
    State(State),
    Link(Box<Link>),
    /// What was before the first tick.
    History(History),
    Tick(Box<Tick>),
    /// A reading without a stream, standing for so many seconds.
    Held(f64),
    Flows(Flows),
    /// No answer. It is asked again.
    Trouble(Trouble),
    /// A signal asks to end.
    Stopped,
}

/// What the user wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// The first link if not given.
    pub(super) link: Option<String>,
    /// Flows that carried most first, not the fastest.
    pub(super) by_bytes: bool,
}

/// The thread and the ways to it.
#[derive(Debug)]
pub(super) struct Feed {
    news: Receiver<News>,
    wish: watch::Sender<Wish>,
}

impl Feed {
    /// Starts asking.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(client: Client, wish: Wish) -> io::Result<Self> {
        let (sender, news) = mpsc::channel();
        let (wish, wished) = watch::channel(wish);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("feed".to_owned()).spawn(move || {
            runtime.block_on(async {
                let asking = Asking { client, news: sender.clone(), wished };
                tokio::select! {
                    () = asking.run() => {}
                    () = asked_to_end() => {
                        // Nobody is left to tell if this fails.
                        let _ = sender.send(News::Stopped);
                        sleep(LAST_MOMENT).await;
                        // The view would have ended the process by now. Its terminal is gone, then: crossterm reads the
                        // end of file over and over and does not come back.
                        std::process::exit(Exit::Io as i32);
                    }
                }
            });
        })?;
        Ok(Self { news, wish })
    }

    /// The next piece of news, if one is there.
    pub(super) fn news(&self) -> Result<News, TryRecvError> {
        self.news.try_recv()
    }

    /// Tells what is wanted from now on.
    pub(super) fn wish(&self, wish: Wish) {
        self.wish.send_if_modified(|current| {
            let changed = *current != wish;
            *current = wish;
            changed
        });
    }
}

/// SIGTERM, or SIGHUP when the SSH connection goes. In raw mode Ctrl-C is a key.
async fn asked_to_end() {
    let (Ok(mut term), Ok(mut hangup)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = hangup.recv() => {}
    }
}

struct Asking {
    client: Client,
    news: Sender<News>,
    wished: watch::Receiver<Wish>,
}

/// Why a round of asking ended.
enum End {
    Trouble(Trouble),
    /// The user wants something else.
    Wish,
    /// The view is gone.
    Unheard,
}

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Asking {
    /// Between two attempts to reach the agent.
    const PAUSE: Duration = Duration::from_secs(1);
    /// State and flows.
    const POLL: Duration = Duration::from_secs(1);
    /// State where there is no stream.
    const QUICK_POLL: Duration = Duration::from_millis(200);

    async fn run(mut self) {
        loop {
            match self.round().await {
                End::Unheard => return,
                End::Wish => {}
                End::Trouble(trouble) => {
                    if self.news.send(News::Trouble(trouble)).is_err() {
                        return;
                    }
                    sleep(Self::PAUSE).await;
                }
            }
        }
    }

    async fn round(&mut self) -> End {
        let result = self.ask().await;
        result.err().unwrap_or(End::Wish)
    }

    fn tell(&self, news: News) -> Result<(), End> {
        self.news.send(news).map_err(|_| End::Unheard)
    }

    async fn ask(&mut self) -> Result<(), End> {
        let wish = self.wished.borrow_and_update().clone();
        let state: State = self.client.json("/api/v1/state").await?;
        let names = state.links.iter().map(|link| &link.name);
        let link = names.clone().find(|name| wish.link.as_ref() == Some(name)).or(names.clone().next());
        let link = link.map(|name| escaped(name));
        self.tell(News::State(state))?;
        let of_link = link.map(|name| format!("&link={name}")).unwrap_or_default();
        let history = format!("/api/v1/history?{}", of_link.trim_start_matches('&'));
        // An older agent remembers nothing; another trouble the next question meets too.
        if let Ok(steps) = self.client.json(&history).await {
            self.tell(News::History(steps))?;
        }
        let sort = if wish.by_bytes { "bytes" } else { "rate" };
        let flows = format!("/api/v1/flows?limit=200&sort={sort}{of_link}");
        let stream = format!("/api/v1/stream?{}", of_link.trim_start_matches('&'));
        let mut wished = self.wished.clone();
        tokio::select! {
            ended = self.poll(&flows) => ended,
            ended = self.watch(&stream) => ended,
            changed = wished.changed() => if changed.is_ok() { Ok(()) } else { Err(End::Unheard) },
        }
    }

    /// What changes slowly, once a second.
    async fn poll(&self, flows: &str) -> Result<(), End> {
        let mut clock = interval(Self::POLL);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            clock.tick().await;
            self.tell(News::Flows(self.client.json(flows).await?))?;
            self.tell(News::State(self.client.json("/api/v1/state").await?))?;
        }
    }

    /// What changes fast.
    async fn watch(&self, path: &str) -> Result<(), End> {
        let mut body = match self.client.stream(path).await {
            Ok(body) => body,
            Err(trouble) if trouble.unknown_path => return self.watch_state().await,
            Err(trouble) => return Err(trouble.into()),
        };
        let mut reader = Reader::default();
        while let Some(part) = body.next().await? {
            for event in reader.push(&part) {
                if let Some(news) = understood(&event) {
                    self.tell(news)?;
                }
            }
        }
        Err(Trouble {
            reason: "the agent ended the connection".to_owned(),
            remedy: "is it being restarted?",
            unknown_path: false,
        }
        .into())
    }

    /// An agent without a stream is asked for its state often instead.
    async fn watch_state(&self) -> Result<(), End> {
        let mut clock = interval(Self::QUICK_POLL);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            clock.tick().await;
            self.tell(News::State(self.client.json("/api/v1/state").await?))?;
            self.tell(News::Held(Self::QUICK_POLL.as_secs_f64()))?;
        }
    }
}

/// Events of a newer agent are passed over.
fn understood(event: &ServerEvent) -> Option<News> {
    match event.name.as_str() {
        "tick" => serde_json::from_str(&event.data).ok().map(|tick| News::Tick(Box::new(tick))),
        "state" => serde_json::from_str(&event.data).ok().map(|link| News::Link(Box::new(link))),
        _ => None,
    }
}

/// For a query: everything but letters, digits and `-._~` as %XX (RFC 3986, 2.1).
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::client::Credentials;

    /// How long a test waits before it fails.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// An agent with these paths, and how it answers for each; all others it does not know.
    fn agent(answers: &'static [(&'static str, &'static str, &'static str)]) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let asked = lines.next().unwrap_or_default();
                lines.find(String::is_empty);
                let path = asked.split([' ', '?']).nth(1);
                let known = answers.iter().find(|(known, ..)| Some(*known) == path);
                let (_, status, body) = known.unwrap_or(&("", "404 Not Found", ""));
                let length = body.len();
                // The feed ends with its test, maybe before it has the answer.
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
            }
        });
        Client::new(url.parse().expect("a URL"), &Credentials::default()).expect("no files to read")
    }

    /// The first news that is trouble or stands for a time.
    fn first_of_time(client: Client) -> News {
        let feed = Feed::start(client, Wish::default()).expect("a thread");
        let mut news = std::iter::from_fn(|| feed.news.recv_timeout(PATIENCE).ok()).take(100);
        let of_time = |news: &News| matches!(news, News::Held(_) | News::Tick(_) | News::Trouble(_));
        news.find(of_time).expect("more than state and flows")
    }

    #[test]
    fn only_an_agent_that_has_no_stream_is_asked_for_its_state_instead() {
        const STATE: (&str, &str, &str) = ("/api/v1/state", "200 OK", r#"{"version": "1"}"#);
        const FLOWS: (&str, &str, &str) = ("/api/v1/flows", "200 OK", "{}");
        const STREAM: &str = "/api/v1/stream";
        assert!(matches!(first_of_time(agent(&[STATE, FLOWS])), News::Held(_)));
        let streaming = agent(const { &[STATE, FLOWS, (STREAM, "200 OK", "event: tick\ndata: {}\n\n")] });
        assert!(matches!(first_of_time(streaming), News::Tick(_)));
        let busy = agent(const { &[STATE, FLOWS, (STREAM, "503 Service Unavailable", "")] });
        let News::Trouble(trouble) = first_of_time(busy) else { panic!("a refusal that is not shown") };
        assert!(trouble.reason.contains("503"), "{trouble:?}");
    }

    #[test]
    fn events_of_a_newer_agent_are_passed_over() {
        let told = |name: &str, data: &str| {
            understood(&ServerEvent { name: name.to_owned(), data: data.to_owned() })
        };
        let tick = serde_json::to_string(&pendulum_wire::Tick::default()).expect("JSON");
        assert!(matches!(told("tick", &tick), Some(News::Tick(_))));
        assert!(matches!(told("state", r#"{"name": "dsl"}"#), Some(News::Link(link)) if link.name == "dsl"));
        assert!(told("forecast", &tick).is_none() && told("state", "{").is_none());
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("wan0.7"), "wan0.7");
        assert_eq!(escaped("Büro & co"), "B%C3%BCro%20%26%20co");
    }
}
