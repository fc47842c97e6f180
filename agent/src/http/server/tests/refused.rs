//! Addresses that cannot be listened on.

use std::io::{Error, ErrorKind};

use super::*;
use crate::exit::{Classified as _, Exit};

#[tokio::test]
async fn a_port_that_is_taken_is_unavailable() {
    let first = Listener::bind(LOOPBACK).await.unwrap();
    let Err(error) = Listener::bind(first.address).await else { panic!("two listeners on one port") };
    assert_eq!(error.exit(), Exit::Unavailable);
    let message = error.to_string();
    assert!(message.starts_with(&format!("cannot listen on {}: ", first.address)), "{message}");
    assert!(message.contains("another process has this port"), "{message}");
}

/// Whoever has the port gives it up later: the agent listens then.
#[tokio::test]
async fn a_port_that_is_taken_is_tried_again() {
    let first = Listener::bind(LOOPBACK).await.unwrap();
    let address = first.address;
    let later = Listener::bind_or_retry(address).await;
    let bound = tokio::spawn(later.bound());
    tokio::time::sleep(BIND_PAUSE / 2).await;
    assert!(!bound.is_finished());
    drop(first);
    let bound = tokio::time::timeout(PATIENCE, bound).await.expect("the port is free").unwrap();
    assert_eq!(bound.address, address);
    assert!(TcpStream::connect(address).await.is_ok());
}

/// A documentation address (RFC 5737) is no device's.
#[tokio::test]
async fn an_address_of_no_device_is_unavailable() {
    let nowhere = SocketAddr::from(([192, 0, 2, 1], 0));
    let Err(error) = Listener::bind(nowhere).await else { panic!("{nowhere} is an address of this machine") };
    assert_eq!(error.exit(), Exit::Unavailable);
    assert!(error.to_string().contains("no device of this network namespace has this address"), "{error}");
}

#[test]
fn each_reason_has_its_remedy_and_exit() {
    for (kind, exit, remedy) in [
        (ErrorKind::AddrInUse, Exit::Unavailable, "another process has this port"),
        (ErrorKind::AddrNotAvailable, Exit::Unavailable, "`ip address` shows those it has"),
        (ErrorKind::PermissionDenied, Exit::NoPermission, "ports below 1024 need CAP_NET_BIND_SERVICE"),
        (ErrorKind::OutOfMemory, Exit::Os, "choose another address or port with --listen"),
    ] {
        let error = ListenError::new(LOOPBACK, &Error::from(kind));
        assert_eq!(error.exit(), exit, "{kind:?}");
        let message = error.to_string();
        let beginning = format!("cannot listen on 127.0.0.1:0: {}; ", Error::from(kind));
        assert!(message.starts_with(&beginning) && message.contains(remedy), "{message}");
    }
}
