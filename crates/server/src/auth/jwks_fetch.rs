//! Loads a key set from a file, or over HTTP/1.1 with or without TLS.
//!
//! Invariant: a fetch ends within [`FETCH_TIMEOUT`] and reads at most [`MAX_KEY_SET_BYTES`], whatever the server sends.
//! Redirects are not followed and proxies are not used.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, HOST, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::config::JwksLocation;
use super::error::KeySetFetchError;

/// Maximum duration of a fetch.
pub(super) const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a key set.
const MAX_KEY_SET_BYTES: usize = 1024 * 1024;

/// Loads a key set from one location, any number of times.
pub(super) struct KeySetFetcher {
    location: JwksLocation,
    tls: Option<TlsConnector>,
}

impl KeySetFetcher {
    /// Verifies `https` with the root certificates of this machine.
    pub(super) fn new(location: JwksLocation) -> Result<Self, KeySetFetchError> {
        let secure =
            matches!(&location, JwksLocation::Url(uri) if uri.scheme_str() == Some("https"));
        let roots = if secure {
            system_roots()?
        } else {
            RootCertStore::empty()
        };
        Self::with_roots(location, roots)
    }

    /// Verifies `https` with these root certificates only.
    pub(super) fn with_roots(
        location: JwksLocation,
        roots: RootCertStore,
    ) -> Result<Self, KeySetFetchError> {
        let tls = match &location {
            JwksLocation::Url(uri) if uri.scheme_str() == Some("https") => Some(connector(roots)?),
            _ => None,
        };
        Ok(Self { location, tls })
    }

    /// Loads the key set.
    pub(super) async fn fetch(&self) -> Result<Vec<u8>, KeySetFetchError> {
        let reading = async {
            match &self.location {
                JwksLocation::File(path) => read_file(path).await,
                JwksLocation::Url(uri) => self.fetch_url(uri).await,
            }
        };
        let late = |_| KeySetFetchError::Timeout(FETCH_TIMEOUT.as_secs());
        tokio::time::timeout(FETCH_TIMEOUT, reading)
            .await
            .map_err(late)?
    }

    pub(super) fn location(&self) -> &JwksLocation {
        &self.location
    }

    async fn fetch_url(&self, uri: &Uri) -> Result<Vec<u8>, KeySetFetchError> {
        let host = uri.host().unwrap_or_default();
        // A URL encloses an IPv6 address in brackets; `TcpStream::connect` expects it without.
        let name = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let port = uri
            .port_u16()
            .unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let stream = TcpStream::connect((name.as_str(), port)).await?;
        match &self.tls {
            None => http_get(stream, uri).await,
            Some(tls) => {
                let invalid = |_| {
                    io::Error::new(
                        io::ErrorKind::InvalidInput,
                        format!("`{host}` is not a valid host name"),
                    )
                };
                let name = ServerName::try_from(name.clone()).map_err(invalid)?;
                http_get(tls.connect(name, stream).await?, uri).await
            }
        }
    }
}

async fn read_file(path: &Path) -> Result<Vec<u8>, KeySetFetchError> {
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(path).await?;
    let mut beginning = file.take(MAX_KEY_SET_BYTES as u64 + 1);
    beginning.read_to_end(&mut bytes).await?;
    if bytes.len() > MAX_KEY_SET_BYTES {
        return Err(KeySetFetchError::TooLong(MAX_KEY_SET_BYTES));
    }
    Ok(bytes)
}

async fn http_get(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    uri: &Uri,
) -> Result<Vec<u8>, KeySetFetchError> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |host| host.as_str());
    let request = Request::get(path)
        .header(HOST, authority)
        .header(ACCEPT, "application/jwk-set+json, application/json")
        .header(USER_AGENT, concat!("parlor/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .map_err(|error| KeySetFetchError::Body(error.to_string()))?;
    let answer = async move {
        let answer = sender.send_request(request).await?;
        if answer.status() != 200 {
            return Err(KeySetFetchError::Status(answer.status().as_u16()));
        }
        let body = Limited::new(answer.into_body(), MAX_KEY_SET_BYTES)
            .collect()
            .await;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return KeySetFetchError::TooLong(MAX_KEY_SET_BYTES);
            }
            KeySetFetchError::Body(error.to_string())
        })?;
        Ok(body.to_bytes().to_vec())
    };
    // The connection task ends when the sender is dropped. Its result does not matter once the response is complete.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}

fn connector(roots: RootCertStore) -> Result<TlsConnector, KeySetFetchError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Loads the root certificates of this machine.
fn system_roots() -> Result<RootCertStore, KeySetFetchError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(KeySetFetchError::NoAuthorities);
    }
    Ok(roots)
}
