//! The configuration in use while the agent runs, and what a changed file can do to it.
//!
//! A reload is all or nothing: a file that is refused changes nothing. Of one that is accepted, the settings that
//! running parts can take over change at once; the others keep their value, and are named until the next start.

use std::time::SystemTime;

use pendulum_wire::Reloads;
use tokio::sync::watch;

use super::{Config, EventsConfig, FlowsConfig, HttpConfig, LinkConfig, LogConfig};

/// The configuration in use, and how reloading it went.
#[derive(Clone, Debug, Default)]
pub struct Active {
    /// What the running parts follow.
    pub config: Config,
    /// Reloads since the start.
    pub reloads: Reloads,
    /// When a file was last taken over, the start included.
    pub last_success: Option<SystemTime>,
}

/// What a new configuration did to the one in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Settings that have their new value now.
    pub applied: Vec<String>,
    /// Settings that keep their old value until the agent is started again.
    pub waiting: Vec<String>,
}

impl Active {
    /// What the agent starts with. Its parts keep the receiver.
    pub fn start(config: Config) -> (watch::Sender<Self>, watch::Receiver<Self>) {
        watch::channel(Self { config, last_success: Some(SystemTime::now()), ..Self::default() })
    }

    /// Takes over what can change while running.
    pub fn adopt(&mut self, wanted: &Config) -> Changes {
        let changes = self.config.adopt(wanted);
        self.reloads.reloads_applied += 1;
        self.last_success = Some(SystemTime::now());
        self.reloads.error = None;
        self.reloads.waiting_for_restart.clone_from(&changes.waiting);
        changes
    }

    /// Keeps everything as it was, and remembers why.
    pub fn refuse(&mut self, reason: String) {
        self.reloads.reloads_refused += 1;
        self.reloads.error = Some(reason);
    }
}

impl Changes {
    /// A setting that running parts take over.
    fn live<T: PartialEq + Clone>(&mut self, name: impl FnOnce() -> String, current: &mut T, wanted: &T) {
        if current != wanted {
            current.clone_from(wanted);
            self.applied.push(name());
        }
    }

    /// A setting that is built in at the start.
    fn fixed<T: PartialEq>(&mut self, name: impl FnOnce() -> String, current: &T, wanted: &T) {
        if current != wanted {
            self.waiting.push(name());
        }
    }
}

impl Config {
    /// Links of a new configuration that are not measured yet and can be while the agent runs.
    pub(crate) fn links_to_add(&self, wanted: &[LinkConfig]) -> Vec<LinkConfig> {
        to_add(&self.links, wanted)
    }

    // Every structure is taken apart without `..`: a new setting has to be put on one of the two sides here.
    fn adopt(&mut self, wanted: &Self) -> Changes {
        let Self {
            shape,
            listen,
            http,
            links,
            flows,
            detector,
            events: EventsConfig { log: event_log, incidents, incident_hosts },
            log,
            bpf_statistics,
            privileges,
        } = self;
        let mut changes = Changes::default();
        changes.fixed(|| "listen".to_owned(), listen, &wanted.listen);
        adopt_http(http, &wanted.http, &mut changes);
        changes.fixed(|| "metrics.bpf-statistics".to_owned(), bpf_statistics, &wanted.bpf_statistics);
        changes.fixed(|| "privileges.after-start".to_owned(), privileges, &wanted.privileges);
        changes.live(|| "detector".to_owned(), detector, &wanted.detector);
        changes.fixed(|| "events.log".to_owned(), event_log, &wanted.events.log);
        changes.fixed(|| "events.incidents".to_owned(), incidents, &wanted.events.incidents);
        changes.fixed(|| "events.incident-hosts".to_owned(), incident_hosts, &wanted.events.incident_hosts);
        changes.live(|| "shape".to_owned(), shape, &wanted.shape);
        adopt_flows(flows, &wanted.flows, &mut changes);
        adopt_log(log, wanted.log, &mut changes);
        adopt_links(links, &wanted.links, &mut changes);
        changes
    }
}

fn adopt_http(http: &mut HttpConfig, wanted: &HttpConfig, changes: &mut Changes) {
    let HttpConfig { names, token_file, tls, external_url } = http;
    changes.fixed(|| "http.names".to_owned(), names, &wanted.names);
    changes.fixed(|| "http.token-file".to_owned(), token_file, &wanted.token_file);
    changes.fixed(|| "http.tls-certificate, http.tls-key".to_owned(), tls, &wanted.tls);
    changes.live(|| "http.external-url".to_owned(), external_url, &wanted.external_url);
}

fn adopt_flows(flows: &mut FlowsConfig, wanted: &FlowsConfig, changes: &mut Changes) {
    let FlowsConfig { idle_timeout, top } = flows;
    changes.live(|| "flows.idle-timeout".to_owned(), idle_timeout, &wanted.idle_timeout);
    changes.live(|| "flows.top".to_owned(), top, &wanted.top);
}

fn adopt_log(log: &mut LogConfig, wanted: LogConfig, changes: &mut Changes) {
    let LogConfig { format, level } = log;
    changes.fixed(|| "log.format".to_owned(), format, &wanted.format);
    changes.live(|| "log.level".to_owned(), level, &wanted.level);
}

/// With another device it is another link.
fn adopt_links(links: &mut Vec<LinkConfig>, wanted: &[LinkConfig], changes: &mut Changes) {
    let added = to_add(links, wanted);
    for link in wanted.iter().filter(|wanted| !links.iter().any(|link| link.is_same(wanted))) {
        let name = format!("link {} on {} (added)", link.name, link.wan);
        if added.contains(link) { &mut changes.applied } else { &mut changes.waiting }.push(name);
    }
    links.retain_mut(|link| {
        if let Some(wanted) = wanted.iter().find(|wanted| link.is_same(wanted)) {
            adopt_link(link, wanted, changes);
            return true;
        }
        let name = format!("link {} on {} (removed)", link.name, link.wan);
        let is_renamed = wanted.iter().any(|wanted| wanted.wan == link.wan || wanted.name == link.name);
        if is_renamed { &mut changes.waiting } else { &mut changes.applied }.push(name);
        is_renamed
    });
    links.extend(added);
    // As the file has them; one that only waits for its new name stands at the end.
    links.sort_by_key(|link| wanted.iter().position(|wanted| link.is_same(wanted)).unwrap_or(usize::MAX));
}

/// Links that can be measured from now on. Not one under a new name on a device that is measured, nor one under a name that is in
/// use: figures of one and the other would mix.
fn to_add(links: &[LinkConfig], wanted: &[LinkConfig]) -> Vec<LinkConfig> {
    let is_new =
        |wanted: &&LinkConfig| links.iter().all(|link| link.wan != wanted.wan && link.name != wanted.name);
    wanted.iter().filter(is_new).cloned().collect()
}

fn adopt_link(link: &mut LinkConfig, wanted: &LinkConfig, changes: &mut Changes) {
    let LinkConfig { name, wan: _, lan, rates, downlink_device, ingress_hook, max_flows, nursery } = link;
    let key = |key: &str| format!("link {name}: {key}");
    changes.live(|| key("uplink-rate"), &mut rates.up, &wanted.rates.up);
    changes.live(|| key("downlink-rate"), &mut rates.down, &wanted.rates.down);
    changes.live(|| key("lan"), lan, &wanted.lan);
    changes.live(|| key("downlink-device"), downlink_device, &wanted.downlink_device);
    changes.fixed(|| key("ingress-hook"), ingress_hook, &wanted.ingress_hook);
    changes.fixed(|| key("max-flows"), max_flows, &wanted.max_flows);
    changes.fixed(|| key("nursery"), nursery, &wanted.nursery);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("test.toml")).unwrap()
    }

    const START: &str = "[[link]]\nwan = \"ppp0\"\nname = \"dsl\"\nuplink-rate = \"10mbit\"\n";

    #[test]
    fn the_same_file_changes_nothing() {
        let (_, active) = Active::start(config(START));
        let mut active = active.borrow().clone();
        assert_eq!(active.adopt(&config(START)), Changes::default());
        assert_eq!((active.reloads.reloads_applied, active.reloads.reloads_refused), (1, 0));
        assert_eq!(active.config, config(START));
    }

    #[test]
    fn what_can_change_does_and_the_rest_is_named() {
        let mut active = Active { config: config(START), ..Active::default() };
        let wanted = config(
            "listen = \"127.0.0.1:1\"\n\
             [[link]]\nwan = \"ppp0\"\nname = \"dsl\"\nuplink-rate = \"5mbit\"\ndownlink-rate = \"50mbit\"\n\
             lan = [\"br0\"]\nmax-flows = 512\n\
             [[link]]\nwan = \"wwan0\"\n\
             [flows]\ntop = 7\nidle-timeout = \"1m\"\n\
             [log]\nlevel = \"debug\"\nformat = \"json\"\n[metrics]\nbpf-statistics = true\n",
        );
        let changes = active.adopt(&wanted);
        assert_eq!(
            changes.applied,
            [
                "flows.idle-timeout",
                "flows.top",
                "log.level",
                "link wwan0 on wwan0 (added)",
                "link dsl: uplink-rate",
                "link dsl: downlink-rate",
                "link dsl: lan"
            ]
        );
        assert_eq!(
            changes.waiting,
            ["listen", "metrics.bpf-statistics", "log.format", "link dsl: max-flows"]
        );
        assert_eq!(active.reloads.waiting_for_restart, changes.waiting);
        let link = &active.config.links[0];
        assert_eq!((link.rates, link.lan.len()), (wanted.links[0].rates, 1));
        assert_eq!(link.max_flows, LinkConfig::new("x").max_flows);
        assert_eq!((active.config.listen, active.config.links.len()), (Config::default().listen, 2));

        let changes = active.adopt(&config("[[link]]\nwan = \"wwan0\"\n"));
        assert_eq!(changes.applied.last().unwrap(), "link dsl on ppp0 (removed)");
        assert_eq!(active.config.links, [LinkConfig::new("wwan0")]);
    }

    #[test]
    fn a_link_with_another_device_is_another_link() {
        let mut active = Active { config: config(START), ..Active::default() };
        let changes = active.adopt(&config("[[link]]\nwan = \"ppp1\"\nname = \"dsl\"\n"));
        assert!(changes.applied.is_empty());
        assert_eq!(changes.waiting, ["link dsl on ppp1 (added)", "link dsl on ppp0 (removed)"]);
        assert_eq!(active.config, config(START));
    }

    /// As the file has them; what waits for its new name stands at the end, and its device is not measured twice.
    #[test]
    fn links_stand_in_the_order_of_the_file() {
        let mut active = Active { config: config(START), ..Active::default() };
        let names =
            |active: &Active| active.config.links.iter().map(|link| link.name.clone()).collect::<Vec<_>>();
        let kept = "[[link]]\nwan = \"wwan0\"\n[[link]]\nwan = \"ppp0\"\nname = \"dsl\"\n";
        let wanted = config(kept);
        assert_eq!(active.config.links_to_add(&wanted.links), [LinkConfig::new("wwan0")]);
        active.adopt(&wanted);
        assert_eq!(names(&active), ["wwan0", "dsl"]);
        assert_eq!(active.config.links_to_add(&wanted.links), []);

        let renamed =
            "[[link]]\nwan = \"ppp0\"\nname = \"new\"\n[[link]]\nwan = \"wwan0\"\n[[link]]\nwan = \"eth7\"\n";
        let changes = active.adopt(&config(renamed));
        assert_eq!(changes.applied, ["link eth7 on eth7 (added)"]);
        assert_eq!(changes.waiting, ["link new on ppp0 (added)", "link dsl on ppp0 (removed)"]);
        assert_eq!(names(&active), ["wwan0", "eth7", "dsl"]);
    }

    #[test]
    fn reloads_are_counted_and_successes_have_their_time() {
        let (_, active) = Active::start(config(START));
        let mut active = active.borrow().clone();
        let started = active.last_success.unwrap();
        active.refuse("no".to_owned());
        active.refuse("no".to_owned());
        assert_eq!((active.reloads.reloads_applied, active.reloads.reloads_refused), (0, 2));
        assert_eq!(active.last_success, Some(started));
        active.last_success = None;
        active.adopt(&config(START));
        active.adopt(&config(START));
        assert_eq!((active.reloads.reloads_applied, active.reloads.reloads_refused), (2, 2));
        assert!(active.last_success.unwrap() >= started);
    }

    #[test]
    fn a_refused_file_is_remembered_until_a_better_one_comes() {
        let mut active = Active { config: config(START), ..Active::default() };
        active.refuse("no".to_owned());
        assert_eq!((active.reloads.reloads_refused, active.reloads.error.as_deref()), (1, Some("no")));
        assert_eq!(active.config, config(START));
        active.adopt(&config(START));
        assert_eq!((active.reloads.reloads_refused, active.reloads.error.as_deref()), (1, None));
    }
}
