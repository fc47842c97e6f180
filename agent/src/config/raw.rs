//! The configuration file as it is written. Every field says its unit, its range and what happens without it.

use std::path::PathBuf;

use pendulum_model::autorate::Priority;
use pendulum_model::rate::{Rate, Span};
use pendulum_model::thresholds::Thresholds;
use serde::Deserialize;
use toml::Spanned;

use super::framing::{FrameLayer, Preset};
use super::shape::{AckFilter, Delta, Probe, ShapeMode, ShapeRate};
use super::{self as config, IngressHook, LogFormat, LogLevel};

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    /// Address and port of the HTTP listener, numeric. Default 127.0.0.1:9924; port 0 takes any free port.
    pub(super) listen: Option<Spanned<String>>,
    /// Who may read, and how it travels.
    #[serde(default)]
    pub(super) http: HttpTable,
    /// One table for each link; at least one.
    #[serde(default)]
    pub(super) link: Vec<Spanned<LinkTable>>,
    /// The flow table's upkeep.
    #[serde(default)]
    pub(super) flows: FlowsTable,
    /// What the detector compares with; every key is optional, `docs/design/detector.md` gives the reasons.
    #[serde(default)]
    pub(super) detector: Thresholds,
    /// What happens to phase changes, verdicts and findings.
    #[serde(default)]
    pub(super) events: EventsTable,
    /// The agent's own messages.
    #[serde(default)]
    pub(super) log: LogTable,
    /// What `/metrics` includes.
    #[serde(default)]
    pub(super) metrics: MetricsTable,
    /// What the agent may do.
    #[serde(default)]
    pub(super) privileges: PrivilegesTable,
    /// Acting on the links, all alike.
    #[serde(default)]
    pub(super) shape: ShapeTable,
}

/// Acting on the links. Default: not at all.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ShapeTable {
    /// `off`, `dry-run`, `auto` or `enforce`. Default `off`.
    #[serde(default)]
    pub(super) mode: ShapeMode,
    /// `configured` or `auto`: found from the queue that stands behind the shaper. Default `configured`.
    #[serde(default)]
    pub(super) rate: ShapeRate,
    /// `latency`, `balanced` or `throughput`: what `rate = "auto"` prefers. Default `balanced`.
    pub(super) priority: Option<Spanned<Priority>>,
    /// `off` or `first-hop`: whom `rate = "auto"` may ask where what passes does not tell how long packets wait. Default `off`.
    pub(super) probe: Option<Spanned<Probe>>,
    /// What `rate = "auto"` never falls below, as `tc` writes rates. Default `64kbit`.
    pub(super) minimum_uplink_rate: Option<Spanned<Rate>>,
    /// What it never exceeds. Default: no limit.
    pub(super) maximum_uplink_rate: Option<Spanned<Rate>>,
    /// The same for what is let in. Default `64kbit`.
    pub(super) minimum_downlink_rate: Option<Spanned<Rate>>,
    /// Default: no limit.
    pub(super) maximum_downlink_rate: Option<Spanned<Rate>>,
    /// Share of the uplink rate that is sent at, percent; 50 to 100. Default 99.
    pub(super) rate_percent: Option<Spanned<u32>>,
    /// Whether the downlink is shaped too. Default false.
    pub(super) downlink: Option<bool>,
    /// Share of the downlink rate that is let in, percent; 50 to 100. Default 95.
    pub(super) downlink_rate_percent: Option<Spanned<u32>>,
    /// `auto`, `off`, `static`, `delayed` or `per-connection`. Default `auto`.
    #[serde(default)]
    pub(super) ack_filter: AckFilter,
    /// `"auto"`, or ACKs of one connection that may be queued before the static filter starts; 1 to 1000. Default `"auto"`.
    #[serde(default)]
    pub(super) delta: Delta,
    /// Compare with and without shaping in turns of this length; 5s to 1h. Default: no comparison; with `auto` 60s.
    pub(super) ab_test: Option<Spanned<Span>>,
    /// Framing of the line by name: `adsl-pppoe`, `adsl-pppoa`, `adsl-bridged`, `vdsl2-ptm`, `vdsl2-pppoe`, `docsis`, `ethernet` or
    /// `conservative`. Default: packets count as the kernel counts them.
    pub(super) preset: Option<Preset>,
    /// `ethernet`, `ptm` or `atm`. Default: the preset's, else `ethernet`.
    pub(super) link_layer: Option<FrameLayer>,
    /// Bytes that a packet takes on the line beside its IP bytes; -64 to 256. Default: the preset's.
    pub(super) overhead: Option<Spanned<i16>>,
    /// Bytes that a packet takes on the line at least; 0 to 256. Default: the preset's, else 0.
    pub(super) mpu: Option<Spanned<u16>>,
    /// Options of cake, as tc-cake(8) has them. Default: `besteffort dual-srchost`, and `nat` where the kernel can.
    pub(super) cake: Option<Spanned<String>>,
}

/// The HTTP listener: who may read, and how it travels.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HttpTable {
    /// Names under which the agent may be asked for, beside `localhost` and numeric addresses. Default: none.
    #[serde(default)]
    pub(super) names: Vec<Spanned<String>>,
    /// File whose content clients have to send as bearer token, 16 to 512 visible ASCII characters. Default: no token.
    pub(super) token_file: Option<Spanned<String>>,
    /// File with the certificate chain, PEM, the server's first. Default: no TLS.
    pub(super) tls_certificate: Option<Spanned<String>>,
    /// File with the private key of the certificate, PEM. Together with `tls-certificate` only.
    pub(super) tls_key: Option<Spanned<String>>,
    /// Address at which people reach the page: label `url` of `pendulum_link_info`. Default: none.
    pub(super) external_url: Option<Spanned<String>>,
}

/// One bottleneck link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LinkTable {
    /// Value of the label `link`: 1 to 32 of `A-Z a-z 0-9 . _ -`, unique. Default: the name of the WAN device.
    pub(super) name: Option<Spanned<String>>,
    /// Network device towards the provider: where the uplink buffer stands.
    pub(super) wan: Spanned<String>,
    /// Network devices towards the home hosts. Default: none.
    #[serde(default)]
    pub(super) lan: Vec<Spanned<String>>,
    /// Capacity towards the provider, as `tc` writes rates (`196kbit`). Default: unknown.
    pub(super) uplink_rate: Option<Rate>,
    /// Capacity from the provider, as `tc` writes rates. Default: unknown.
    pub(super) downlink_rate: Option<Rate>,
    /// Network device whose queueing discipline shapes the downlink. Default: the one that a filter on the WAN device
    /// redirects to, if there is one.
    pub(super) downlink_device: Option<Spanned<String>>,
    /// Where packets from the provider are seen. Default `tc`.
    #[serde(default)]
    pub(super) ingress_hook: IngressHook,
    /// Flows that can be followed at once, 256 to 1048576. Default 16384, which takes 10.4 MiB of kernel memory.
    pub(super) max_flows: Option<Spanned<u32>>,
    /// Connection attempts that can be remembered at once before they are answered, 64 to 1048576. Default 4096.
    pub(super) nursery: Option<Spanned<u32>>,
}

/// The flow table's upkeep.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FlowsTable {
    /// A flow without a packet for this long is forgotten; 10s to 24h. Default 5m.
    pub(super) idle_timeout: Option<Spanned<Span>>,
    /// Flows that `/api/v1/flows` lists when the request names no limit; 1 to 10000. Default 20.
    pub(super) top: Option<Spanned<u32>>,
}

/// What happens to phase changes, verdicts and findings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct EventsTable {
    /// File that gets one JSON object for each, on a line of its own; an absolute path. Default: none.
    pub(super) log: Option<Spanned<PathBuf>>,
    /// Whether verdicts and findings are recorded as incidents in the state directory. Default true.
    pub(super) incidents: Option<bool>,
    /// Whether incidents have the addresses of their flows. Default false.
    pub(super) incident_hosts: Option<bool>,
}

/// The agent's own messages, on stderr.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LogTable {
    /// `text` or `json`. Default `text`, with journal priorities when stderr is the journal.
    #[serde(default)]
    pub(super) format: LogFormat,
    /// `error`, `warn`, `info`, `debug` or `trace`. Default `info`.
    #[serde(default)]
    pub(super) level: LogLevel,
}

/// What `/metrics` includes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MetricsTable {
    /// Lets the kernel measure run count and run time of BPF programs while the agent runs. It costs two clock reads
    /// for each run of every BPF program on this machine. Default true.
    pub(super) bpf_statistics: Option<bool>,
}

/// What the agent may do.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PrivilegesTable {
    /// What it keeps once it measures. Default `reattach`.
    #[serde(default)]
    pub(super) after_start: config::Privileges,
}
