//! Whether the certificate of a valid signature comes from a trusted authority.

use std::fmt;
use std::time::SystemTime;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use thiserror::Error;
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error as ChainError, KeyUsage};
use x509_cert::name::Name;

use super::cms::VerifiedSignature;
use super::{SignatureState, Signer};

/// The purpose "code signing" of a certificate, as the bytes of its object identifier.
const CODE_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];
/// The maximum length of a name that is shown.
const MAX_NAME_LENGTH: usize = 300;

/// The authorities whose certificates are trusted. None by default.
#[derive(Clone, Default)]
pub struct SignatureTrust {
    /// Their certificates.
    pub authorities: Vec<CertificateDer<'static>>,
}

impl fmt::Debug for SignatureTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignatureTrust({} authorities)", self.authorities.len())
    }
}

/// Why the certificate of a signer is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ChainFault {
    /// No trusted authority made it.
    #[error("no trusted authority made its certificate")]
    UnknownAuthority,
    /// It has expired, or is not valid yet.
    #[error("its certificate has expired or is not valid yet")]
    Expired,
    /// It is for another purpose.
    #[error("its certificate is not for signing code")]
    Purpose,
    /// It is damaged, or has a form that is not supported.
    #[error("its certificate cannot be checked")]
    Unsupported,
}

impl SignatureTrust {
    /// The authorities that browsers trust.
    pub fn public() -> SignatureTrust {
        SignatureTrust { authorities: webpki_root_certs::TLS_SERVER_ROOT_CERTS.to_vec() }
    }

    /// Adds the certificates of a PEM file. Returns how many there are; `None` if the text is no valid PEM file.
    pub fn add_pem(&mut self, pem: &[u8]) -> Option<usize> {
        let before = self.authorities.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            self.authorities.push(certificate.ok()?);
        }
        Some(self.authorities.len() - before)
    }

    pub(super) fn judge(&self, verified: VerifiedSignature) -> SignatureState {
        let certificate = &verified.certificate.tbs_certificate;
        let signer =
            Signer { subject: shown(&certificate.subject), issuer: shown(&certificate.issuer) };
        let is_trusted_itself =
            self.authorities.iter().any(|it| it.as_ref() == verified.der.as_slice());
        if verified.is_self_signed && !is_trusted_itself {
            return SignatureState::SelfSigned(signer);
        }
        let fault = if is_trusted_itself { None } else { self.check_chain(&verified).err() };
        SignatureState::Signed { signer, fault }
    }

    fn check_chain(&self, verified: &VerifiedSignature) -> Result<(), ChainFault> {
        let certificate = CertificateDer::from(verified.der.as_slice());
        let others: Vec<CertificateDer<'_>> =
            verified.others.iter().map(|it| CertificateDer::from(it.as_slice())).collect();
        let anchors: Vec<_> = self
            .authorities
            .iter()
            .filter_map(|authority| webpki::anchor_from_trusted_cert(authority).ok())
            .collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let signer = EndEntityCert::try_from(&certificate).map_err(|_| ChainFault::Unsupported)?;
        let checked = signer.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &anchors,
            &others,
            UnixTime::since_unix_epoch(now),
            KeyUsage::required_if_present(CODE_SIGNING),
            None,
            None,
        );
        match checked {
            Ok(_) => Ok(()),
            Err(ChainError::UnknownIssuer) => Err(ChainFault::UnknownAuthority),
            Err(ChainError::CertExpired { .. } | ChainError::CertNotValidYet { .. }) => {
                Err(ChainFault::Expired)
            }
            Err(ChainError::RequiredEkuNotFoundContext(_)) => Err(ChainFault::Purpose),
            Err(_) => Err(ChainFault::Unsupported),
        }
    }
}

/// A name as text of limited length.
fn shown(name: &Name) -> String {
    name.to_string().chars().take(MAX_NAME_LENGTH).collect()
}
