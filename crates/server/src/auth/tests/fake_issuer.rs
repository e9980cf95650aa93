//! A web server that plays the issuer of a key set, with or without TLS, and sends the responses that a test sets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::super::*;
use super::fixtures::TestKeyPair;

/// The server; it stops with the runtime of the test.
pub struct FakeIssuer {
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Mutex<Vec<u8>>,
    request_count: AtomicUsize,
    /// Each response takes one permit, so that a test can block responses.
    gate: Semaphore,
}

impl FakeIssuer {
    pub async fn start() -> FakeIssuer {
        Self::serve(None).await
    }

    /// Starts a server with TLS. Returns the root certificate that verifies it, too.
    pub async fn start_secure() -> (FakeIssuer, RootCertStore) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        (
            Self::serve(Some(TlsAcceptor::from(Arc::new(config)))).await,
            roots,
        )
    }

    async fn serve(tls: Option<TlsAcceptor>) -> FakeIssuer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = match &tls {
            None => format!("http://127.0.0.1:{port}/jwks.json?v=1"),
            Some(_) => format!("https://localhost:{port}/jwks.json"),
        };
        let shared = Arc::new(Shared {
            answer: Mutex::default(),
            request_count: AtomicUsize::new(0),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        let state = Arc::clone(&shared);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (state, tls) = (Arc::clone(&state), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => state.answer(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                state.answer(stream).await;
                            }
                        }
                    }
                });
            }
        });
        FakeIssuer { address, shared }
    }

    /// Responds with a key set of these keys.
    pub fn publish(&self, keys: &[(Option<&str>, &TestKeyPair)]) {
        let keys: Vec<Value> = keys.iter().map(|(kid, pair)| pair.jwk(*kid)).collect();
        self.say(200, &json!({ "keys": keys }).to_string());
    }

    /// Responds with this status and body.
    pub fn say(&self, status: u16, body: &str) {
        let length = body.len();
        self.raw(format!("HTTP/1.1 {status} Said\r\nLocation: /elsewhere\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes());
    }

    /// Responds with these bytes and closes the connection.
    pub fn raw(&self, answer: Vec<u8>) {
        *self.shared.answer.lock().unwrap() = answer;
    }

    /// Blocks responses until [`FakeIssuer::unblock_responses`].
    pub fn hold(&self) {
        self.shared.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub fn release(&self) {
        self.shared.gate.add_permits(1_000);
    }

    /// Number of requests so far.
    pub fn request_count(&self) -> usize {
        self.shared.request_count.load(Ordering::SeqCst)
    }

    pub fn config(&self, algorithm: &str) -> AuthConfig {
        AuthConfig::new(&AuthSettings {
            algorithm,
            jwks: &self.address,
            ..AuthSettings::default()
        })
        .unwrap()
    }
}

impl Shared {
    async fn answer(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => request.push(byte),
                Err(_) => return,
            }
        }
        assert!(request.starts_with(b"GET /jwks.json"), "{request:?}");
        self.request_count.fetch_add(1, Ordering::SeqCst);
        self.gate.acquire().await.unwrap().forget();
        let answer = self.answer.lock().unwrap().clone();
        // The client may have closed the connection.
        let _ = stream.write_all(&answer).await;
        let _ = stream.shutdown().await;
    }
}
