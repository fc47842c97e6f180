//! QUIC by quinn: bulk transfers, and small requests that each open a connection.
//!
//! Its congestion control and its cryptography are real: what passes is what a browser's HTTP/3 looks like to the gateway. Each host of the internet
//! has one server on port 443. A client sends the number of bytes that it wants, then its own; the server reads them and sends what was wanted.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use pendulum_model::segment::Direction;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::pem::PemObject as _;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig,
};
use tokio::runtime::{Builder, Runtime};

use super::{Ends, TrafficError};
use crate::lab::Lab;
use crate::topology::{IpVersion, Role};

const PORT: u16 = 443;
const CERTIFICATE: &[u8] = include_bytes!("../../../data/tls/certificate.pem");
const KEY: &[u8] = include_bytes!("../../../data/tls/key.pem");
/// Whose certificate it is.
const NAME: &str = "gateway.example";
/// Bytes that are given to quinn at a time.
static CHUNK: [u8; 16_384] = [0; 16_384];

/// With this seed the first connection of a client and of a server is one of those that spin.
const SPINS: [u8; 32] = [0; 32];

/// Which connections show the spin bit. By default quinn takes one end in eight for those that do not (RFC 9000 §17.4 wants one connection in 16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// As it comes.
    ByChance,
    /// The first connection of each host does, the others by chance.
    First,
    /// None.
    Never,
}

/// Servers on the internet, and all clients at home. Dropping it ends them.
#[derive(Debug)]
pub struct Quic {
    runtime: Runtime,
    client: ClientConfig,
    spin: Spin,
}

/// Small requests, each over a connection of its own.
#[derive(Clone, Copy, Debug)]
pub struct QuicRequests {
    /// Who asks whom.
    pub ends: Ends,
    /// From the end of one to the next.
    pub every: Duration,
    /// Bytes of a request.
    pub request_bytes: usize,
    /// Bytes of its reply.
    pub reply_bytes: u64,
}

impl Quic {
    /// Starts a server on each host of the internet; all use this congestion control: `reno`, `cubic` or `bbr`.
    ///
    /// # Errors
    /// If a port is taken, or the congestion control is another.
    pub fn start(lab: &Lab, congestion_control: &str, spin: Spin) -> Result<Self, TrafficError> {
        let fail = failed(Role::D1);
        let mut transport = transport(congestion_control).map_err(fail)?;
        transport.allow_spin(spin != Spin::Never);
        let transport = Arc::new(transport);
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).map_err(invalid).map_err(fail)?;
        let key = PrivateKeyDer::from_pem_slice(KEY).map_err(invalid).map_err(fail)?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).map_err(invalid).map_err(fail)?;
        let mut client =
            ClientConfig::with_root_certificates(Arc::new(roots)).map_err(invalid).map_err(fail)?;
        client.transport_config(Arc::clone(&transport));
        let mut server =
            ServerConfig::with_single_cert(vec![certificate], key).map_err(invalid).map_err(fail)?;
        server.transport_config(transport);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(fail)?;
        let quic = Self { runtime, client, spin };
        for role in [Role::D1, Role::U1] {
            let endpoint = quic.endpoint(lab, role, PORT, Some(server.clone()))?;
            quic.runtime.spawn(serve(endpoint));
        }
        Ok(quic)
    }

    fn endpoint(
        &self,
        lab: &Lab,
        role: Role,
        port: u16,
        server: Option<ServerConfig>,
    ) -> Result<Endpoint, TrafficError> {
        let bind = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port));
        let socket = lab.host(role).inside(bind)?.map_err(failed(role))?;
        let _inside = self.runtime.enter();
        let mut config = EndpointConfig::default();
        config.rng_seed((self.spin == Spin::First).then_some(SPINS));
        Endpoint::new(config, server, socket, Arc::new(TokioRuntime)).map_err(failed(role))
    }

    /// Starts a transfer that lasts until this is dropped.
    ///
    /// # Errors
    /// If there is no port for it.
    pub fn transfer(&self, lab: &Lab, direction: Direction, ends: Ends) -> Result<(), TrafficError> {
        self.connect(lab, ends, move |endpoint, client, server| async move {
            let connection = open(&endpoint, client, server).await?;
            match direction {
                Direction::Up => request(&connection, 0, u64::MAX).await,
                Direction::Down => request(&connection, u64::MAX, 0).await,
            }
        })
    }

    /// Starts requests that go on until this is dropped.
    ///
    /// # Errors
    /// If there is no port for them.
    pub fn requests(&self, lab: &Lab, requests: QuicRequests) -> Result<(), TrafficError> {
        let QuicRequests { ends, every, request_bytes, reply_bytes } = requests;
        self.connect(lab, ends, move |endpoint, client, server| async move {
            loop {
                // What a full buffer drops is sent again by quinn; a connection that does not open at all is given up.
                if let Ok(connection) = open(&endpoint, client.clone(), server).await {
                    let _ = request(&connection, reply_bytes, request_bytes as u64).await;
                    connection.close(0_u32.into(), b"");
                }
                tokio::time::sleep(every).await;
            }
        })
    }

    fn connect<F>(
        &self,
        lab: &Lab,
        ends: Ends,
        then: impl FnOnce(Endpoint, ClientConfig, SocketAddr) -> F,
    ) -> Result<(), TrafficError>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let endpoint = self.endpoint(lab, ends.home, 0, None)?;
        let address = ends.internet.address(IpVersion::V4);
        let address = address.ok_or_else(|| failed(ends.internet)(io::ErrorKind::AddrNotAvailable.into()))?;
        self.runtime.spawn(then(endpoint, self.client.clone(), SocketAddr::new(address, PORT)));
        Ok(())
    }
}

fn transport(congestion_control: &str) -> io::Result<TransportConfig> {
    let controller: Arc<dyn ControllerFactory + Send + Sync> = match congestion_control {
        "reno" => Arc::new(NewRenoConfig::default()),
        "cubic" => Arc::new(CubicConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut transport = TransportConfig::default();
    // As the lab's links carry them: a datagram at a time.
    transport.congestion_controller_factory(controller).enable_segmentation_offload(false);
    Ok(transport)
}

async fn open(endpoint: &Endpoint, client: ClientConfig, server: SocketAddr) -> io::Result<Connection> {
    let connecting = endpoint.connect_with(client, server, NAME).map_err(io::Error::other)?;
    Ok(connecting.await?)
}

/// Sends so many bytes and reads what was wanted.
async fn request(connection: &Connection, wanted: u64, bytes: u64) -> io::Result<()> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&wanted.to_be_bytes()).await?;
    write(&mut send, bytes).await?;
    send.finish().map_err(io::Error::other)?;
    read(&mut receive).await
}

async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                let mut wanted = [0; 8];
                receive.read_exact(&mut wanted).await.map_err(io::Error::other)?;
                tokio::spawn(async move { read(&mut receive).await });
                write(&mut send, u64::from_be_bytes(wanted)).await?;
                send.finish().map_err(io::Error::other)?;
            }
            io::Result::Ok(())
        });
    }
}

async fn write(send: &mut quinn::SendStream, mut bytes: u64) -> io::Result<()> {
    while bytes > 0 {
        let chunk = bytes.min(CHUNK.len() as u64);
        send.write_all(&CHUNK[..chunk as usize]).await?;
        bytes -= chunk;
    }
    Ok(())
}

async fn read(receive: &mut quinn::RecvStream) -> io::Result<()> {
    while receive.read_chunk(CHUNK.len(), true).await.map_err(io::Error::other)?.is_some() {}
    Ok(())
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

fn failed(role: Role) -> impl Fn(io::Error) -> TrafficError + Copy {
    move |source| TrafficError::Quic { role, source }
}
