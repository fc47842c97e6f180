//! Two namespaces and a veth pair between them: a gateway's WAN side and what lies behind it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// The WAN device, in the gateway's namespace.
pub(crate) const WAN: &str = "wan0";
/// The other end, in the remote namespace.
pub(crate) const REMOTE_DEVICE: &str = "peer0";
/// The remote end's address.
pub(crate) const REMOTE: &str = "10.99.0.2";
/// A configuration with the WAN device and nothing else.
pub(crate) const PLAIN: &str = "[[link]]\nwan = \"wan0\"\n";
/// Where the agent listens, in the gateway's namespace.
pub(crate) const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9924);

/// Pairs that this process has made so far.
static PAIRS: AtomicU32 = AtomicU32::new(0);

/// The pair; dropping it removes both namespaces, and with them the devices.
pub(crate) struct Pair {
    pub(crate) gateway: String,
    pub(crate) remote: String,
}

impl Pair {
    /// Make it, with segmentation and receive offloads off, so that every packet has at most 1500 bytes.
    pub(crate) fn new() -> Result<Self> {
        let id = std::process::id();
        let number = PAIRS.fetch_add(1, Ordering::Relaxed);
        let pair =
            Self { gateway: format!("pbench-{id}-gw{number}"), remote: format!("pbench-{id}-out{number}") };
        sh(&["ip", "netns", "add", &pair.gateway])?;
        sh(&["ip", "netns", "add", &pair.remote])?;
        let link = ["ip", "-n", &pair.gateway, "link", "add", WAN, "type", "veth"];
        sh(&[link.as_slice(), &["peer", "name", REMOTE_DEVICE, "netns", &pair.remote]].concat())?;
        for (namespace, device, address) in
            [(&pair.gateway, WAN, "10.99.0.1/24"), (&pair.remote, REMOTE_DEVICE, "10.99.0.2/24")]
        {
            sh(&["ip", "-n", namespace, "addr", "add", address, "dev", device])?;
            sh(&["ip", "-n", namespace, "link", "set", "lo", "up"])?;
            // TCP makes super-packets whatever the device can do, and TC sees them before they are cut.
            sh(&["ip", "-n", namespace, "link", "set", device, "gso_max_segs", "1", "up"])?;
            let offloads = ["ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off"];
            let status = command(namespace, &offloads).stdout(Stdio::null()).status()?;
            ensure!(status.success(), "ethtool could not switch the offloads of {device} off");
        }
        Ok(pair)
    }

    /// Start the agent on the WAN device and wait until it is ready; `config`: the text of its configuration.
    pub(crate) fn agent(&self, agent: &Path, config: &str) -> Result<Running> {
        let mut file = tempfile::NamedTempFile::new().context("a file for the configuration")?;
        file.write_all(config.as_bytes())?;
        self.agent_by(agent, file.path())
    }

    /// The same with a configuration that stays, for reloads.
    pub(crate) fn agent_by(&self, agent: &Path, config: &Path) -> Result<Running> {
        let [agent, config] = [agent, config].map(|path| path.display().to_string());
        let listen = LISTEN.to_string();
        let words = [&agent, "run", "--config", &config, "--listen", &listen];
        let child = command(&self.gateway, &words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting the agent")?;
        let running = Running { child };
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.get("/readyz").is_err() {
            ensure!(Instant::now() < deadline, "the agent is not ready after 10 s");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(running)
    }

    /// Put a qdisc on the WAN device, or none.
    pub(crate) fn qdisc(&self, kind: Option<&str>) -> Result<()> {
        self.qdisc_of(&[kind.unwrap_or("noqueue")])
    }

    /// Put a qdisc with its parameters on the WAN device.
    pub(crate) fn qdisc_of(&self, qdisc: &[&str]) -> Result<()> {
        let words = ["tc", "-n", &self.gateway, "qdisc", "replace", "dev", WAN, "root"];
        sh(&[words.as_slice(), qdisc].concat())
    }

    /// The body of a successful GET from the agent.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        inside(&self.gateway, || {
            let mut stream = TcpStream::connect_timeout(&LISTEN, Duration::from_secs(2))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            let (head, body) = answer.split_once("\r\n\r\n").context("an HTTP answer has a head")?;
            ensure!(head.starts_with("HTTP/1.1 200"), "{path}: {}", head.lines().next().unwrap_or_default());
            Ok(body.to_owned())
        })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for namespace in [&self.gateway, &self.remote] {
            let _ = Command::new("ip").args(["netns", "del", namespace]).stderr(Stdio::null()).status();
        }
    }
}

/// A child that ends with its owner, asked politely first.
pub(crate) struct Running {
    pub(crate) child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: a signal to our own child, which has not been waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) };
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the kernel has cake: tried in a network namespace of its own.
pub(crate) fn has_cake() -> bool {
    let probe = "ip link add probe type ifb && tc qdisc add dev probe root cake";
    let tried = Command::new("unshare").args(["--net", "sh", "-c", probe]).output();
    tried.is_ok_and(|tried| tried.status.success())
}

/// A command that runs inside a namespace.
pub(crate) fn command(namespace: &str, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{namespace}")).arg("--").args(words);
    command
}

/// Call `deed` on a thread that stands inside a namespace.
pub(crate) fn inside<T: Send>(namespace: &str, deed: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let file = File::open(format!("/run/netns/{namespace}"))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: moves only this thread, which ends with the scope.
            if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
                bail!("entering {namespace}: {}", std::io::Error::last_os_error());
            }
            deed()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs a command that has to succeed.
pub(crate) fn sh(words: &[&str]) -> Result<()> {
    let output = Command::new(words[0]).args(&words[1..]).output().context(words[0].to_owned())?;
    ensure!(
        output.status.success(),
        "{}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
