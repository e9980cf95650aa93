//! Certificate authority of one server, with a certificate for the server and one for its clients.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use redis::{ClientTlsConfig, TlsCertificates};

/// PEM files in the folder of the server.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    pub(crate) ca: PathBuf,
    pub(crate) server: (PathBuf, PathBuf),
    pub(crate) client: (PathBuf, PathBuf),
}

impl Certificates {
    pub(crate) fn create(folder: &Path) -> Self {
        // The redis crate installs no crypto provider. An error means that the test has installed one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "parlor-testkit CA");
        let ca = folder.join("ca.crt");
        fs::write(&ca, params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        Self {
            ca,
            server: create_leaf_certificate(
                folder,
                "server",
                ExtendedKeyUsagePurpose::ServerAuth,
                &issuer,
            ),
            client: create_leaf_certificate(
                folder,
                "client",
                ExtendedKeyUsagePurpose::ClientAuth,
                &issuer,
            ),
        }
    }

    /// Certificates in the form of the redis crate.
    pub(crate) fn to_redis_tls(&self) -> TlsCertificates {
        TlsCertificates {
            client_tls: Some(ClientTlsConfig {
                client_cert: fs::read(&self.client.0).unwrap(),
                client_key: fs::read(&self.client.1).unwrap(),
            }),
            root_cert: Some(fs::read(&self.ca).unwrap()),
        }
    }
}

fn create_leaf_certificate(
    folder: &Path,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
) -> (PathBuf, PathBuf) {
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    params.extended_key_usages = vec![usage];
    params.distinguished_name.push(DnType::CommonName, name);
    let files = (
        folder.join(format!("{name}.crt")),
        folder.join(format!("{name}.key")),
    );
    fs::write(&files.0, params.signed_by(&key, issuer).unwrap().pem()).unwrap();
    fs::write(&files.1, key.serialize_pem()).unwrap();
    files
}
