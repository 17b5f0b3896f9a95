//! The TLS configuration of the HTTP server: certificate, key and client authorities from files, which can be read again
//! while connections are open. `tls_connection` does the handshakes.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use switchboard_auth::resource_server::certificate_validity;
use switchboard_config::entry::server::sha256;
use thiserror::Error;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{
    ServerSessionMemoryCache, VerifierBuilderError, WebPkiClientVerifier,
};
use tokio_rustls::rustls::{self, InconsistentKeys, RootCertStore, ServerConfig};

/// The largest file.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// How many sessions of TLS 1.2 and tickets of TLS 1.3 are kept for resumption.
const RESUMABLE_SESSIONS: usize = 4096;
/// The protocols over TLS, preferred first.
pub(crate) const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// The files of a TLS configuration, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The authorities of client certificates, where clients may have one.
    pub client_authorities: Option<(PathBuf, ClientCertificates)>,
}

/// Must clients have a certificate?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A connection without one is refused.
    #[default]
    Required,
    /// A connection may have none; its requests need a token.
    Optional,
}

/// Why a TLS file cannot be used.
#[derive(Debug, Error)]
#[error("`{}` cannot be used", path.display())]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub kind: TlsErrorKind,
}

/// The reason why a TLS file cannot be used.
#[derive(Debug, Error)]
pub enum TlsErrorKind {
    /// It cannot be read.
    #[error("the file cannot be read")]
    Unreadable(#[source] io::Error),
    /// It is too large.
    #[error("it is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    /// It is not PEM.
    #[error("it is not PEM")]
    NotPem,
    /// It contains no certificate.
    #[error("it contains no certificate (`-----BEGIN CERTIFICATE-----`)")]
    NoCertificate,
    /// It contains no private key.
    #[error("it contains no private key without a password (`-----BEGIN PRIVATE KEY-----`)")]
    NoKey,
    /// The key belongs to another certificate.
    #[error("the key does not belong to the certificate in `{}`", certificate.display())]
    KeyMismatch {
        /// The file of the certificate.
        certificate: PathBuf,
    },
    /// The certificate has expired.
    #[error("the certificate has expired; renew it")]
    Expired,
    /// The certificate is not valid yet.
    #[error("the certificate is not valid yet; is the clock right?")]
    NotYetValid,
    /// The certificate or the key is not usable.
    #[error("the certificate or the key cannot be used")]
    Unusable(#[source] rustls::Error),
    /// The client authorities are not usable.
    #[error("the certificates of the client authorities cannot be used")]
    UnusableAuthorities(#[source] VerifierBuilderError),
}

/// What reading the files again has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsReload {
    /// The files are the same.
    Unchanged,
    /// New connections have the new certificate.
    Changed,
}

/// The TLS side of a server, with the files that were valid last.
#[derive(Debug)]
pub struct TlsServer {
    files: TlsFiles,
    current: watch::Sender<Arc<LoadedTls>>,
}

/// What was read from the files.
pub(crate) struct LoadedTls {
    digest: String,
    config: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    expires: SystemTime,
}

impl fmt::Debug for LoadedTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedTls").field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl LoadedTls {
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// Would a client with this certificate chain be accepted now?
    pub(crate) fn accepts(&self, chain: &[CertificateDer<'static>]) -> bool {
        match (&self.verifier, chain) {
            (Some(verifier), [client, issuers @ ..]) => {
                verifier.verify_client_cert(client, issuers, UnixTime::now()).is_ok()
            }
            (Some(_), []) | (None, _) => false,
        }
    }
}

impl TlsServer {
    /// Reads the files.
    pub fn open(files: TlsFiles) -> Result<TlsServer, TlsError> {
        let loaded = load(&files, &read_all(&files)?)?;
        Ok(TlsServer { files, current: watch::Sender::new(Arc::new(loaded)) })
    }

    /// Reads the files again. If they are not valid, the configuration stays as it is. Open connections stay open,
    /// except where the client's certificate is no longer accepted.
    pub fn reload(&self) -> Result<TlsReload, TlsError> {
        let texts = read_all(&self.files)?;
        if texts.digest() == self.current.borrow().digest {
            return Ok(TlsReload::Unchanged);
        }
        let loaded = load(&self.files, &texts)?;
        self.current.send_replace(Arc::new(loaded));
        Ok(TlsReload::Changed)
    }

    /// When the certificate expires.
    pub fn expires(&self) -> SystemTime {
        self.current.borrow().expires
    }

    /// Do clients authenticate with certificates, always or if they have one?
    pub fn has_client_authorities(&self) -> bool {
        self.files.client_authorities.is_some()
    }

    /// The current configuration, and its changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<LoadedTls>> {
        self.current.subscribe()
    }
}

/// The contents of the files.
struct FileTexts {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Option<Vec<u8>>,
}

impl FileTexts {
    fn digest(&self) -> String {
        let parts =
            [&self.certificate, &self.key, self.authorities.as_ref().unwrap_or(&Vec::new())]
                .map(|it| sha256(it).to_string());
        parts.concat()
    }
}

fn read_all(files: &TlsFiles) -> Result<FileTexts, TlsError> {
    let authorities = files.client_authorities.as_ref().map(|it| read(&it.0)).transpose()?;
    Ok(FileTexts { certificate: read(&files.certificate)?, key: read(&files.key)?, authorities })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let error = |kind| TlsError { path: path.to_owned(), kind };
    let mut text = Vec::new();
    File::open(path)
        .and_then(|it| it.take(MAX_FILE_BYTES + 1).read_to_end(&mut text))
        .map_err(|it| error(TlsErrorKind::Unreadable(it)))?;
    match text.len() as u64 > MAX_FILE_BYTES {
        true => Err(error(TlsErrorKind::TooLarge)),
        false => Ok(text),
    }
}

fn load(files: &TlsFiles, texts: &FileTexts) -> Result<LoadedTls, TlsError> {
    let certificate_error = |kind| TlsError { path: files.certificate.clone(), kind };
    let key_error = |kind| TlsError { path: files.key.clone(), kind };
    let chain = certificates(&texts.certificate).map_err(certificate_error)?;
    let key =
        PrivateKeyDer::from_pem_slice(&texts.key).map_err(|_| key_error(TlsErrorKind::NoKey))?;
    let (begins, expires) = chain
        .first()
        .and_then(|it| certificate_validity(it))
        .ok_or_else(|| certificate_error(TlsErrorKind::NoCertificate))?;
    let now = SystemTime::now();
    if now >= expires {
        return Err(certificate_error(TlsErrorKind::Expired));
    }
    if now < begins {
        return Err(certificate_error(TlsErrorKind::NotYetValid));
    }
    let verifier = match (&files.client_authorities, &texts.authorities) {
        (Some((path, needed)), Some(text)) => {
            let error = |kind| TlsError { path: path.clone(), kind };
            Some(client_verifier(text, *needed).map_err(error)?)
        }
        (Some(_) | None, _) => None,
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|it| certificate_error(TlsErrorKind::Unusable(it)))?;
    let builder = match &verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        if error == rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) {
            return key_error(TlsErrorKind::KeyMismatch { certificate: files.certificate.clone() });
        }
        certificate_error(TlsErrorKind::Unusable(error))
    })?;
    config.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1.to_vec()];
    config.session_storage = ServerSessionMemoryCache::new(RESUMABLE_SESSIONS);
    Ok(LoadedTls { digest: texts.digest(), config: Arc::new(config), verifier, expires })
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsErrorKind> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|_| TlsErrorKind::NotPem)?;
    if chain.is_empty() { Err(TlsErrorKind::NoCertificate) } else { Ok(chain) }
}

fn client_verifier(
    text: &[u8],
    needed: ClientCertificates,
) -> Result<Arc<dyn ClientCertVerifier>, TlsErrorKind> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(text)? {
        roots.add(certificate).map_err(TlsErrorKind::Unusable)?;
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match needed {
        ClientCertificates::Required => builder,
        ClientCertificates::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(TlsErrorKind::UnusableAuthorities)
}
