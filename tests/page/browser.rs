//! Headless Chromium, spoken to in the DevTools protocol over a pair of pipes: messages of JSON that end with a zero byte.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pendulum_lab::Lab;
use serde_json::{Value, json};

pub(crate) const CHROMIUM: &str = "/usr/bin/chromium";

/// How long anything is waited for. Generous: a loaded machine must not fail a test.
const PATIENCE: Duration = Duration::from_secs(120);

/// Chromium expects the pipes as descriptors 3 and 4.
const START: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// A browser with one page, on the lab's gateway. Dropping it ends it.
pub(crate) struct Browser {
    child: Child,
    orders: ChildStdin,
    messages: Receiver<Value>,
    events: VecDeque<Value>,
    session: String,
    last: u64,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts it with an empty page; `script` runs in every page before the page's own.
    pub(crate) fn start(lab: &Lab, script: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = lab.gateway().command("sh").unwrap();
        command.args(["-c", START, CHROMIUM, "--headless", "--remote-debugging-pipe", "--no-first-run"]);
        // Root has no sandbox; there is no graphics card, and nobody to send reports to.
        command.args(["--no-sandbox", "--disable-gpu", "--disable-background-networking"]);
        command.args(["--disable-dev-shm-usage", "--hide-scrollbars", "--disable-breakpad"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while answers.read_until(0, &mut bytes).is_ok_and(|length| length > 0) {
                bytes.pop();
                if sender.send(serde_json::from_slice(&bytes).unwrap()).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        let (events, session) = (VecDeque::new(), String::new());
        let mut browser = Self { child, orders, messages, events, session, last: 0, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script }));
        browser
    }

    /// One command of the protocol and its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.orders.write_all(format!("{message}\0").as_bytes()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut message = match self.messages.recv_timeout(left) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => panic!("Chromium does not answer {method}"),
                Err(RecvTimeoutError::Disconnected) => panic!("Chromium has ended: {:?}", self.child.wait()),
            };
            if message["id"] == self.last {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.events.push_back(message);
        }
    }

    /// The value of an expression in the page; a promise is waited for.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", parameters);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {:#}", result["exceptionDetails"]);
        result["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_until(&mut self, what: &str, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.evaluate(expression) != true {
            if Instant::now() > deadline {
                let text = self.evaluate("document.body.innerText");
                panic!("waited in vain until {what}; the page says:\n{}", text.as_str().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The text of the element with this id.
    pub(crate) fn text(&mut self, id: &str) -> String {
        let text = self.evaluate(&format!("document.getElementById('{id}').textContent"));
        text.as_str().unwrap().to_owned()
    }

    /// What the browser has reported under this name so far.
    pub(crate) fn reported(&self, method: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["method"] == method).map(|event| &event["params"]).collect()
    }

    /// The size of the screen, and whether the system prefers dark colours.
    pub(crate) fn look(&mut self, width: u32, height: u32, scale: f64, dark: bool) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// A picture of what the screen shows.
    pub(crate) fn screenshot(&mut self, file: &Path) {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        std::fs::write(file, from_base64(picture["data"].as_str().unwrap())).unwrap();
    }

    /// Bytes of the page's live JavaScript objects, and the number of DOM nodes, once all garbage is gone.
    pub(crate) fn memory(&mut self) -> (f64, u64) {
        for _ in 0..2 {
            self.call("HeapProfiler.collectGarbage", json!({}));
        }
        let heap = self.call("Runtime.getHeapUsage", json!({}));
        let counters = self.call("Memory.getDOMCounters", json!({}));
        (heap["usedSize"].as_f64().unwrap(), counters["nodes"].as_u64().unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its helper processes end with it. Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// RFC 4648 §4.
fn from_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut length, mut bytes) = (0_u32, 0, Vec::new());
    for digit in text.bytes().filter_map(|byte| ALPHABET.iter().position(|&known| known == byte)) {
        bits = (bits << 6) | digit as u32;
        length += 6;
        if length >= 8 {
            length -= 8;
            bytes.push((bits >> length) as u8);
        }
    }
    bytes
}
