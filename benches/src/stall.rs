//! How long the agent keeps others waiting: requests while it loads another link's programs and while it reads a full flow table, and
//! the readings of a link meanwhile.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::frames::{Conversations, Sender};
use crate::namespaces::{LISTEN, Pair, inside, sh};

const FLOWS: u32 = 60_000;
const FIRST: &str = "[[link]]\nwan = \"wan0\"\nmax-flows = 65536\n";
const SECOND: &str = "[[link]]\nwan = \"wan1\"\n";
const RELOADS: u64 = 3;
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Serialize)]
pub(crate) struct StallReport {
    rest: Stretch,
    second_link: Stretch,
    flows: u64,
    many_flows: Stretch,
}

/// What was seen over a time.
#[derive(Clone, Copy, Default, Serialize)]
struct Stretch {
    requests: usize,
    /// The longest that `/healthz` took.
    request_max_s: f64,
    ticks: usize,
    /// The longest time between two readings of the first link, due every 0.1 s.
    tick_max_s: f64,
}

/// Measure.
pub(crate) fn run(agent: &Path, seconds: u64) -> Result<StallReport> {
    let pair = Pair::new()?;
    sh(&["ip", "-n", &pair.gateway, "link", "add", "wan1", "type", "veth", "peer", "name", "far1"])?;
    sh(&["ip", "-n", &pair.gateway, "link", "set", "wan1", "up"])?;
    let config = tempfile::NamedTempFile::new().context("a file for the configuration")?;
    std::fs::write(config.path(), FIRST)?;
    let running = pair.agent_by(agent, config.path())?;
    let pid = running.child.id().cast_signed();
    let stretch = Duration::from_secs(2 * seconds);
    // What starting takes is not rest.
    std::thread::sleep(Duration::from_secs(2));
    let rest = watch(&pair, || {
        std::thread::sleep(stretch);
        Ok(())
    })?;
    let second_link = watch(&pair, || {
        for turn in 0..RELOADS {
            reload(&pair, pid, config.path(), &format!("{FIRST}{SECOND}"), 2 * turn + 1)?;
            reload(&pair, pid, config.path(), FIRST, 2 * turn + 2)?;
        }
        Ok(())
    })?;
    let conversations = Conversations::open(&pair)?;
    for n in 0..FLOWS {
        conversations.exchange(Sender::Home, n, 0)?;
    }
    std::thread::sleep(Duration::from_secs(2));
    let many_flows = watch(&pair, || {
        std::thread::sleep(stretch);
        Ok(())
    })?;
    let flows = state(&pair)?.pointer("/links/0/flow_table/flows").and_then(Value::as_u64);
    let flows = flows.context("the state tells how full the flow table is")?;
    ensure!(flows * 10 >= u64::from(FLOWS) * 9, "only {flows} of {FLOWS} flows arrived");
    Ok(StallReport { rest, second_link, flows, many_flows })
}

fn state(pair: &Pair) -> Result<Value> {
    Ok(serde_json::from_str(&pair.get("/api/v1/state")?)?)
}

/// Gives the agent another file and waits until so many were taken over.
fn reload(pair: &Pair, pid: i32, file: &Path, config: &str, applied: u64) -> Result<()> {
    std::fs::write(file, config)?;
    // SAFETY: a signal to our own child, which has not been waited for.
    unsafe { libc::kill(pid, libc::SIGHUP) };
    let deadline = Instant::now() + Duration::from_secs(60);
    while state(pair)?.pointer("/config/reloads_applied").and_then(Value::as_u64) != Some(applied) {
        ensure!(Instant::now() < deadline, "the reload is not applied after 60 s");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Asks and listens while `deed` runs.
fn watch(pair: &Pair, deed: impl FnOnce() -> Result<()>) -> Result<Stretch> {
    let over = AtomicBool::new(false);
    let seen = Mutex::new(Stretch::default());
    let note = |change: &dyn Fn(&mut Stretch)| {
        if let Ok(mut seen) = seen.lock() {
            change(&mut seen);
        }
    };
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| inside(&pair.gateway, || ask(&over, &note)));
        let listening = scope.spawn(|| inside(&pair.gateway, || listen(&over, &note)));
        let done = deed();
        over.store(true, Ordering::Relaxed);
        let threads = [asking, listening];
        let ended: Result<Vec<()>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        done.and(ended.map(|_| ()))
    })?;
    let seen = *seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    ensure!(seen.requests > 0 && seen.ticks > 0, "neither answers nor ticks were seen");
    Ok(seen)
}

type Note<'a> = &'a (dyn Fn(&dyn Fn(&mut Stretch)) + Sync);

/// Asks again and again on one connection.
fn ask(over: &AtomicBool, note: Note<'_>) -> Result<()> {
    let mut stream = TcpStream::connect(LISTEN)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut answer = [0; 4096];
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let length = stream.read(&mut answer)?;
        ensure!(answer[..length].starts_with(b"HTTP/1.1 200"), "/healthz is not answered");
        let took = start.elapsed().as_secs_f64();
        note(&|seen| {
            seen.requests += 1;
            seen.request_max_s = seen.request_max_s.max(took);
        });
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Follows the first link's ticks by their own time. A stream ends when there are other links.
fn listen(over: &AtomicBool, note: Note<'_>) -> Result<()> {
    let mut last = None;
    while !over.load(Ordering::Relaxed) {
        let mut stream = TcpStream::connect(LISTEN)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(
            b"GET /api/v1/stream?link=wan0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        )?;
        for line in BufReader::new(stream).lines() {
            let line = line?;
            let Some(data) = line.strip_prefix("data:").filter(|data| data.contains("\"step_s\"")) else {
                continue;
            };
            let tick: Value = serde_json::from_str(data)?;
            let at = tick["at_s"].as_f64().context("a tick has a time")?;
            let gap = last.replace(at).map_or(0.0, |last| at - last);
            note(&|seen| {
                seen.ticks += 1;
                seen.tick_max_s = seen.tick_max_s.max(gap);
            });
            if over.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(())
}

impl fmt::Display for StallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The longest the agent kept others waiting\n")?;
        let full = format!("with {} flows", self.flows);
        for (what, seen) in [
            ("at rest", self.rest),
            ("while a second link comes and goes", self.second_link),
            (&full, self.many_flows),
        ] {
            writeln!(
                f,
                "{what:<36} /healthz {:>7.1} ms of {} requests; between two readings {:>6.0} ms of {}",
                seen.request_max_s * 1e3,
                seen.requests,
                seen.tick_max_s * 1e3,
                seen.ticks
            )?;
        }
        Ok(())
    }
}
