//! Where the agent is: a URL, or the part of one that matters.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// Scheme, host and port of an agent, and a path in front of its own where it stands behind a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentUrl {
    is_https: bool,
    host: String,
    port: u16,
    /// Without a slash at its end.
    prefix: String,
}

/// What is wrong with a URL and what it has to look like.
#[derive(Debug, thiserror::Error)]
#[error("{reason}; an agent's URL looks like http://gateway:9924")]
pub(crate) struct AddressError {
    reason: String,
}

impl AgentUrl {
    /// The agent's own port.
    const PORT: u16 = 9924;

    /// Whether it is asked over TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.is_https
    }

    /// For connecting; IPv6 addresses without brackets.
    pub(crate) fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// As the header `Host` has it.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// What is asked for on the connection.
    pub(crate) fn target(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// The whole URL of a path.
    #[cfg(any(test, feature = "top"))]
    pub(crate) fn with(&self, path: &str) -> String {
        format!("{self}{path}")
    }
}

impl fmt::Display for AgentUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(formatter, "{scheme}://{}:{}{}", self.host, self.port, self.prefix)
    }
}

impl FromStr for AgentUrl {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |reason: &str| AddressError { reason: reason.to_owned() };
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = with_scheme.parse().map_err(|error| wrong(&format!("{error}")))?;
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("the scheme is neither http nor https")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("there is no host in it"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a user name or password is not understood"));
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(wrong("there is no host in it"));
        }
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") | None => Self::PORT,
            Some(_) => match uri.port_u16() {
                Some(port) if port > 0 => port,
                _ => return Err(wrong("the port is not a number from 1 to 65535")),
            },
        };
        if uri.query().is_some() {
            return Err(wrong("a query (?…) has no place in it"));
        }
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { is_https, host: authority.host().to_owned(), port, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_is_understood() {
        for (text, url) in [
            ("http://127.0.0.1:9924", "http://127.0.0.1:9924"),
            ("http://gateway", "http://gateway:9924"),
            ("gateway:80/", "http://gateway:80"),
            ("http://[2001:db8::1]:9924/", "http://[2001:db8::1]:9924"),
            ("http://proxy:80/gateways/one/", "http://proxy:80/gateways/one"),
            ("https://gateway.example", "https://gateway.example:9924"),
        ] {
            let address: AgentUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(address.to_string(), url);
        }
        let address: AgentUrl = "http://[::1]:1".parse().expect("IPv6");
        assert_eq!((address.host(), address.authority().as_str()), ("::1", "[::1]:1"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, reason) in [
            ("ftp://gateway", "scheme"),
            ("http://gateway:99999", "port"),
            ("http://gateway:", "port"),
            ("http://me@gateway", "user name"),
            ("http://gateway/?a=b", "query"),
            ("http://", ""),
            ("", ""),
            ("http://two words", ""),
        ] {
            let error = text.parse::<AgentUrl>().expect_err(text).to_string();
            assert!(error.contains(reason) && error.contains("http://gateway:9924"), "{text}: {error}");
        }
    }
}
