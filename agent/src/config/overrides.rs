//! What the command line of `pendulum run` changes in the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

use pendulum_model::rate::Rate;
use pendulum_model::segment::PerDirection;

use super::check::{Problem, parse_device};
use super::{Config, ConfigError, IngressHook, LinkConfig, LogFormat, LogLevel};

/// Values given on the command line. They win over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Which link the link options below belong to; without a file: the one link.
    pub wan: Option<String>,
    /// Replaces the link's LAN devices, if not empty.
    pub lan: Vec<String>,
    /// Capacity towards the provider.
    pub uplink_rate: Option<Rate>,
    /// Capacity from the provider.
    pub downlink_rate: Option<Rate>,
    /// Where packets from the provider are seen.
    pub ingress_hook: Option<IngressHook>,
    /// Address and port of the HTTP listener.
    pub listen: Option<SocketAddr>,
    /// How log lines look.
    pub log_format: Option<LogFormat>,
    /// Which log lines are written.
    pub log_level: Option<LogLevel>,
}

impl Overrides {
    /// Makes the configuration of `run` from a file, if there is one, and the command line.
    ///
    /// With a file that has one link, `--wan` replaces its device; with several, it says which of them the other
    /// link options are for.
    ///
    /// # Errors
    /// As [`Config::load`], and for options that belong to no link.
    pub fn resolve(&self, file: Option<PathBuf>) -> Result<Config, ConfigError> {
        let mut config = match file {
            Some(file) => Config::load(&file)?,
            None => Config::default(),
        };
        self.apply_to_links(&mut config.links)?;
        config.listen = self.listen.unwrap_or(config.listen);
        config.log.format = self.log_format.unwrap_or(config.log.format);
        config.log.level = self.log_level.unwrap_or(config.log.level);
        Ok(config)
    }

    fn apply_to_links(&self, links: &mut Vec<LinkConfig>) -> Result<(), ConfigError> {
        let wan = self.wan.as_deref().map(parse_device).transpose().map_err(option_problem)?;
        match (links.as_mut_slice(), wan) {
            ([], Some(wan)) => links.push(self.applied(LinkConfig::new(wan))?),
            ([], None) => {
                return Err(ConfigError::Options {
                    reason: "no link to watch".to_owned(),
                    remedy:
                        "name the device towards the provider with --wan DEV, or a file with --config FILE"
                            .to_owned(),
                });
            }
            ([only], wan) => {
                let mut link = only.clone();
                if let Some(wan) = wan {
                    if link.name == link.wan {
                        link.name.clone_from(&wan);
                    }
                    link.wan = wan;
                }
                *only = self.applied(link)?;
            }
            (several, Some(wan)) => match several.iter_mut().find(|link| link.wan == wan) {
                Some(link) => *link = self.applied(link.clone())?,
                None => {
                    let known: Vec<&str> = several.iter().map(|link| link.wan.as_str()).collect();
                    return Err(ConfigError::Options {
                        reason: format!("--wan {wan}: no link of the configuration has this device"),
                        remedy: format!("its links are on {}", known.join(", ")),
                    });
                }
            },
            (_, None) if self.changes_a_link() => {
                return Err(ConfigError::Options {
                    reason:
                        "the configuration has several links, and the options do not say which they are for"
                            .to_owned(),
                    remedy: "add --wan DEV".to_owned(),
                });
            }
            (_, None) => {}
        }
        Ok(())
    }

    fn changes_a_link(&self) -> bool {
        !self.lan.is_empty()
            || self.uplink_rate.is_some()
            || self.downlink_rate.is_some()
            || self.ingress_hook.is_some()
    }

    fn applied(&self, mut link: LinkConfig) -> Result<LinkConfig, ConfigError> {
        if !self.lan.is_empty() {
            link.lan = self
                .lan
                .iter()
                .map(|device| parse_device(device))
                .collect::<Result<_, _>>()
                .map_err(option_problem)?;
        }
        link.rates = PerDirection {
            up: self.uplink_rate.or(link.rates.up),
            down: self.downlink_rate.or(link.rates.down),
        };
        link.ingress_hook = self.ingress_hook.unwrap_or(link.ingress_hook);
        if link.lan.contains(&link.wan) {
            return Err(ConfigError::Options {
                reason: format!("`{}` is both the WAN and a LAN device", link.wan),
                remedy: "name the device towards the provider with --wan, the others with --lan".to_owned(),
            });
        }
        Ok(link)
    }
}

fn option_problem(problem: Problem) -> ConfigError {
    ConfigError::Options { reason: problem.reason, remedy: problem.remedy.to_owned() }
}
