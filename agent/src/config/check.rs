//! From the file as written to a configuration that can be trusted.

mod shape;

use std::collections::HashMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pendulum_model::rate::Span;
use pendulum_model::segment::PerDirection;
use pendulum_model::thresholds::{Thresholds, Unusable};
use toml::Spanned;

use super::bounds::Bounds;
use super::error::{ConfigError, SourceText};
use super::{
    Config, DEFAULT_LISTEN, EventsConfig, FlowsConfig, HttpConfig, LinkConfig, LogConfig, TlsFiles, raw,
};

/// A flow takes 664 bytes of kernel memory (`bpftool map show`); a million of them is what a large gateway can spare.
pub(super) const MAX_FLOWS: Bounds<u32> = Bounds { least: 256, most: 1 << 20, default: 16_384 };
/// Fewer than 64 entries would be one CPU's worth of the kernel's LRU free list.
pub(super) const NURSERY: Bounds<u32> = Bounds { least: 64, most: 1 << 20, default: 4_096 };
/// A retransmission timer backs off up to a minute and more (RFC 6298 §2.4): below 10 s live flows would be forgotten.
pub(super) const IDLE_TIMEOUT: Bounds<Duration> = Bounds {
    least: Duration::from_secs(10),
    most: Duration::from_secs(24 * 3_600),
    default: Duration::from_secs(300),
};
/// Bounds the size of one answer of `/api/v1/flows`.
pub(crate) const TOP: Bounds<u32> = Bounds { least: 1, most: 10_000, default: 20 };

/// `IFNAMSIZ` (linux/if.h) less the final zero.
const DEVICE_NAME_MAX: usize = 15;
/// RFC 1035 §2.3.4.
const HOST_NAME_MAX: usize = 253;
/// A label value, too.
const URL_MAX: usize = 256;
/// A label value people can read in a dashboard.
const LINK_NAME_MAX: usize = 32;

pub(super) fn check(text: &str, path: &Path) -> Result<Config, ConfigError> {
    let source = SourceText { text, path };
    let file: raw::File = toml::from_str(text).map_err(|error| source.toml_error(&error))?;
    if file.link.is_empty() {
        return Err(source.invalid(0..0, "no link is configured", "add a [[link]] table with `wan = \"…\"`"));
    }
    Ok(Config {
        listen: file.listen.map_or(Ok(DEFAULT_LISTEN), |listen| source.listen(&listen))?,
        http: source.http(file.http)?,
        links: source.links(file.link)?,
        flows: FlowsConfig {
            idle_timeout: source.idle_timeout(file.flows.idle_timeout)?,
            top: source.number(file.flows.top, &TOP)? as usize,
        },
        detector: source.detector(file.detector)?,
        events: EventsConfig {
            log: file.events.log.map(|path| source.event_log(path)).transpose()?,
            incidents: file.events.incidents.unwrap_or(true),
            incident_hosts: file.events.incident_hosts.unwrap_or(false),
        },
        log: LogConfig { format: file.log.format, level: file.log.level },
        bpf_statistics: file.metrics.bpf_statistics.unwrap_or(false),
        privileges: file.privileges.after_start,
        shape: shape::check(&source, file.shape)?,
    })
}

impl SourceText<'_> {
    fn listen(&self, listen: &Spanned<String>) -> Result<SocketAddr, ConfigError> {
        parse_listen(listen.get_ref()).map_err(|problem| self.problem(listen.span(), problem))
    }

    fn detector(&self, thresholds: Thresholds) -> Result<Thresholds, ConfigError> {
        match thresholds.unusable() {
            None => Ok(thresholds),
            Some(Unusable { key, reason, remedy }) => {
                Err(self.invalid(self.span_of(&["detector", key]), reason, remedy))
            }
        }
    }

    fn event_log(&self, path: Spanned<PathBuf>) -> Result<PathBuf, ConfigError> {
        if path.get_ref().is_absolute() && path.get_ref().file_name().is_some() {
            return Ok(path.into_inner());
        }
        Err(self.invalid(
            path.span(),
            format!("`{}` is not the absolute path of a file", path.get_ref().display()),
            "write for example /var/log/pendulum/events.jsonl",
        ))
    }

    fn http(&self, raw: raw::HttpTable) -> Result<HttpConfig, ConfigError> {
        let names = raw.names.iter().map(|name| self.host_name(name)).collect::<Result<_, _>>()?;
        let token_file = raw.token_file.map(|file| self.file(&file)).transpose()?;
        let tls = match (raw.tls_certificate, raw.tls_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate: self.file(&certificate)?, key: self.file(&key)? })
            }
            (Some(lonely), None) => return Err(self.lonely(&lonely, "tls-certificate", "tls-key")),
            (None, Some(lonely)) => return Err(self.lonely(&lonely, "tls-key", "tls-certificate")),
        };
        let external_url = raw.external_url.map(|url| self.external_url(&url)).transpose()?;
        Ok(HttpConfig { names, token_file, tls, external_url })
    }

    fn external_url(&self, url: &Spanned<String>) -> Result<String, ConfigError> {
        let text = url.get_ref();
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let is_plain = |rest: &str| {
            rest.chars().all(|c| c.is_ascii_graphic() && !"\"'<>\\^`{|}#?@".contains(c))
                && rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
        };
        if text.len() <= URL_MAX && rest.is_some_and(is_plain) {
            return Ok(text.trim_end_matches('/').to_owned());
        }
        Err(self.invalid(
            url.span(),
            format!("`{}` is not the address of a page", text.escape_debug()),
            "write it as in the address bar, without user, ? and #: https://gateway.example",
        ))
    }

    fn lonely(&self, value: &Spanned<String>, this: &str, missing: &str) -> ConfigError {
        self.invalid(
            value.span(),
            format!("`{this}` without `{missing}`"),
            format!("TLS needs both: add `{missing}`"),
        )
    }

    fn file(&self, file: &Spanned<String>) -> Result<PathBuf, ConfigError> {
        let path = PathBuf::from(file.get_ref());
        if path.is_absolute() {
            return Ok(path);
        }
        Err(self.invalid(
            file.span(),
            format!("`{}` is not an absolute path", path.display()),
            "write the whole path: a service starts in another directory than a shell",
        ))
    }

    fn host_name(&self, name: &Spanned<String>) -> Result<String, ConfigError> {
        // The root's dot may stand at the end of a name, here as in what clients ask for.
        let text = name.get_ref().trim_end_matches('.');
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if text.is_empty() || text.len() > HOST_NAME_MAX || !text.chars().all(allowed) {
            return Err(self.invalid(
                name.span(),
                format!("`{}` is not a host name", name.get_ref().escape_debug()),
                "write it as in the address bar, without scheme and port: gateway.example",
            ));
        }
        Ok(text.to_ascii_lowercase())
    }

    fn links(&self, raw: Vec<Spanned<raw::LinkTable>>) -> Result<Vec<LinkConfig>, ConfigError> {
        let mut names = HashMap::new();
        let mut devices = HashMap::new();
        let mut links = Vec::with_capacity(raw.len());
        for link in raw {
            let link = link.into_inner();
            let wan_span = link.wan.span();
            let name_span = link.name.as_ref().map_or(wan_span.clone(), Spanned::span);
            let link = self.link(link)?;
            self.unique("name", &mut names, &link.name, name_span)?;
            self.unique("WAN device", &mut devices, &link.wan, wan_span)?;
            links.push(link);
        }
        Ok(links)
    }

    fn unique(
        &self,
        what: &str,
        seen: &mut HashMap<String, Range<usize>>,
        value: &str,
        span: Range<usize>,
    ) -> Result<(), ConfigError> {
        match seen.insert(value.to_owned(), span.clone()) {
            None => Ok(()),
            Some(_) => Err(self.invalid(
                span,
                format!("another link has the {what} `{value}` already"),
                format!("give each [[link]] its own {what}"),
            )),
        }
    }

    fn link(&self, raw: raw::LinkTable) -> Result<LinkConfig, ConfigError> {
        let wan = self.device(&raw.wan)?;
        let name = match &raw.name {
            Some(name) => self.link_name(name)?,
            None => wan.clone(),
        };
        let lan = raw.lan.iter().map(|device| self.device(device)).collect::<Result<Vec<_>, _>>()?;
        if let Some(same) = raw.lan.iter().find(|device| *device.get_ref() == wan) {
            return Err(self.invalid(
                same.span(),
                format!("`{wan}` is this link's WAN device"),
                "name only devices towards the home hosts here",
            ));
        }
        Ok(LinkConfig {
            name,
            wan,
            lan,
            rates: PerDirection { up: raw.uplink_rate, down: raw.downlink_rate },
            downlink_device: raw.downlink_device.as_ref().map(|device| self.device(device)).transpose()?,
            ingress_hook: raw.ingress_hook,
            max_flows: self.number(raw.max_flows, &MAX_FLOWS)?,
            nursery: self.number(raw.nursery, &NURSERY)?,
        })
    }

    fn link_name(&self, name: &Spanned<String>) -> Result<String, ConfigError> {
        let text = name.get_ref();
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if text.is_empty() || text.len() > LINK_NAME_MAX || !text.chars().all(allowed) {
            return Err(self.invalid(
                name.span(),
                format!("`{text}` cannot name a link"),
                format!("use 1 to {LINK_NAME_MAX} letters, digits, `.`, `_` or `-`"),
            ));
        }
        Ok(text.clone())
    }

    fn device(&self, device: &Spanned<String>) -> Result<String, ConfigError> {
        parse_device(device.get_ref()).map_err(|problem| self.problem(device.span(), problem))
    }

    pub(super) fn number(
        &self,
        value: Option<Spanned<u32>>,
        bounds: &Bounds<u32>,
    ) -> Result<u32, ConfigError> {
        let Some(value) = value else { return Ok(bounds.default) };
        self.within(*value.get_ref(), bounds, value.span())
    }

    fn idle_timeout(&self, value: Option<Spanned<Span>>) -> Result<Duration, ConfigError> {
        let Some(value) = value else { return Ok(IDLE_TIMEOUT.default) };
        let bounds = Bounds {
            least: Span(IDLE_TIMEOUT.least),
            most: Span(IDLE_TIMEOUT.most),
            default: Span(IDLE_TIMEOUT.default),
        };
        Ok(self.within(*value.get_ref(), &bounds, value.span())?.0)
    }

    pub(super) fn within<T: PartialOrd + Display + Copy>(
        &self,
        value: T,
        bounds: &Bounds<T>,
        span: Range<usize>,
    ) -> Result<T, ConfigError> {
        if value < bounds.least || value > bounds.most {
            let Bounds { least, most, default } = bounds;
            return Err(self.invalid(
                span,
                format!("{value} is out of range"),
                format!("allowed are {least} to {most}, and {default} is the default"),
            ));
        }
        Ok(value)
    }

    fn problem(&self, span: Range<usize>, problem: Problem) -> ConfigError {
        self.invalid(span, problem.reason, problem.remedy)
    }
}

/// What is wrong with one value, wherever it came from.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) reason: String,
    pub(super) remedy: &'static str,
}

pub(super) fn parse_listen(text: &str) -> Result<SocketAddr, Problem> {
    text.parse().map_err(|_| Problem {
        reason: format!("`{text}` is not a numeric address with a port"),
        remedy: "write for example 127.0.0.1:9924 or [::1]:9924",
    })
}

/// The kernel's own rule for device names: `dev_valid_name` in net/core/dev.c.
pub(super) fn parse_device(text: &str) -> Result<String, Problem> {
    let forbidden = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    if text.is_empty()
        || text.len() > DEVICE_NAME_MAX
        || text == "."
        || text == ".."
        || text.chars().any(forbidden)
    {
        return Err(Problem {
            reason: format!("`{}` cannot be the name of a network device", text.escape_debug()),
            remedy: "`ip -brief link` lists the devices of this machine",
        });
    }
    Ok(text.to_owned())
}
