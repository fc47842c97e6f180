//! In the place of `trust` in builds without TLS: an agent that is named by https is not asked.

use std::path::Path;

use tokio::net::TcpStream;

use super::Trouble;
use crate::exit::{Exit, Failure};

/// There is none.
#[derive(Clone, Debug)]
pub(super) enum Tls {}

impl Tls {
    pub(super) fn new(_: Option<&Path>) -> Result<Self, Failure> {
        let reason = "this build of pendulum has no TLS: ask by http://, or build it with the feature `tls`";
        Err(Failure::new(Exit::Unavailable, reason))
    }

    pub(super) async fn connect(&self, _: &str, _: TcpStream) -> Result<TcpStream, Trouble> {
        match *self {}
    }
}
