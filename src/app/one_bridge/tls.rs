//! TLS by the certificate and key in two files, which are read again when they change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The times at which both files were changed.
type Times = [Option<SystemTime>; 2];

/// Accepts TLS connections.
#[derive(Clone)]
pub(crate) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    read: Arc<Mutex<(Times, TlsAcceptor)>>,
}

impl Tls {
    /// Reads a chain of certificates and a key, both in PEM.
    ///
    /// # Errors
    /// A file cannot be read, or they do not belong together.
    pub(crate) fn read(certificate: PathBuf, key: PathBuf) -> io::Result<Self> {
        let times = times(&certificate, &key);
        let read = (times, acceptor(&certificate, &key)?);
        Ok(Self { certificate, key, read: Arc::new(Mutex::new(read)) })
    }

    /// Makes the handshake with a client.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let acceptor = self.present();
        acceptor.accept(stream).await
    }

    /// The acceptor for the present files, or for the former ones while the present ones cannot be used.
    fn present(&self) -> TlsAcceptor {
        let mut read = self.read.lock();
        let times = times(&self.certificate, &self.key);
        if times != read.0 {
            match acceptor(&self.certificate, &self.key) {
                Ok(acceptor) => *read = (times, acceptor),
                Err(error) => {
                    tracing::warn!(%error, "the changed certificate or key cannot be used; the former ones stay");
                    read.0 = times;
                }
            }
        }
        read.1.clone()
    }
}

fn times(certificate: &Path, key: &Path) -> Times {
    [certificate, key].map(|file| file.metadata().and_then(|about| about.modified()).ok())
}

fn acceptor(certificate: &Path, key: &Path) -> io::Result<TlsAcceptor> {
    let unusable = |file: &Path, error: &dyn std::fmt::Display| {
        io::Error::other(format!("{} cannot be used for TLS: {error}", file.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(certificate, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| unusable(key, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).field("key", &self.key).finish()
    }
}
