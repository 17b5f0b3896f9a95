//! The principal of a client certificate, and the fields of a certificate that operators ask about. Whether a
//! certificate is valid is decided during the TLS handshake, not here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use x509_cert::Certificate;
use x509_cert::der::asn1::{ObjectIdentifier, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::principal::Principal;

/// The attribute `commonName` of a subject.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// The longest name that is used.
const MAX_NAME_BYTES: usize = 256;

/// A client certificate that a TLS handshake has verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Whose certificate it is.
    pub principal: Principal,
    /// When it expires.
    pub expires: SystemTime,
}

/// Why a certificate names no principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CertificateNameError {
    /// It cannot be parsed.
    #[error("the certificate cannot be read")]
    Malformed,
    /// It has no name that could be used.
    #[error("the certificate has no URI, email, DNS name or common name of at most 256 bytes")]
    NoName,
}

impl ClientCertificate {
    /// Reads a certificate in DER. Its principal is `cert:` and the first of these that it has: a URI, an email address
    /// or a DNS name among the alternative names, then the common name of its subject.
    pub fn parse(der: &[u8]) -> Result<ClientCertificate, CertificateNameError> {
        let certificate =
            Certificate::from_der(der).map_err(|_| CertificateNameError::Malformed)?;
        let name = name(&certificate)?.ok_or(CertificateNameError::NoName)?;
        let principal = Principal::from_certificate(&name);
        Ok(ClientCertificate { principal, expires: expiry(&certificate) })
    }
}

/// When a certificate in DER becomes valid, and when it expires; `None` if it cannot be parsed.
pub fn certificate_validity(der: &[u8]) -> Option<(SystemTime, SystemTime)> {
    let certificate = Certificate::from_der(der).ok()?;
    let begins = certificate.tbs_certificate.validity.not_before.to_unix_duration();
    Some((time(begins), expiry(&certificate)))
}

fn expiry(certificate: &Certificate) -> SystemTime {
    time(certificate.tbs_certificate.validity.not_after.to_unix_duration())
}

fn time(since_epoch: Duration) -> SystemTime {
    UNIX_EPOCH + since_epoch
}

fn name(certificate: &Certificate) -> Result<Option<String>, CertificateNameError> {
    let body = &certificate.tbs_certificate;
    let names =
        body.get::<SubjectAltName>().map_err(|_| CertificateNameError::Malformed)?.map(|it| it.1.0);
    let names = names.unwrap_or_default();
    let uri = |it: &GeneralName| {
        let GeneralName::UniformResourceIdentifier(uri) = it else { return None };
        usable(uri.as_str())
    };
    let email = |it: &GeneralName| {
        let GeneralName::Rfc822Name(email) = it else { return None };
        usable(email.as_str())
    };
    let dns = |it: &GeneralName| {
        let GeneralName::DnsName(name) = it else { return None };
        usable(name.as_str())
    };
    let alternative = names
        .iter()
        .find_map(uri)
        .or_else(|| names.iter().find_map(email))
        .or_else(|| names.iter().find_map(dns));
    Ok(alternative.or_else(|| common_name(certificate)))
}

/// The most specific common name of the subject.
fn common_name(certificate: &Certificate) -> Option<String> {
    let sets = certificate.tbs_certificate.subject.0.iter().rev();
    let attributes = sets.flat_map(|it| it.0.iter());
    attributes.filter(|it| it.oid == COMMON_NAME).find_map(|it| {
        let (value, tag) = (&it.value, it.value.tag());
        let text = if tag == Tag::Utf8String {
            value.decode_as::<Utf8StringRef<'_>>().ok()?.as_str().to_owned()
        } else if tag == Tag::PrintableString {
            value.decode_as::<PrintableStringRef<'_>>().ok()?.as_str().to_owned()
        } else if tag == Tag::TeletexString {
            value.decode_as::<TeletexStringRef<'_>>().ok()?.as_str().to_owned()
        } else {
            return None;
        };
        usable(&text)
    })
}

fn usable(text: &str) -> Option<String> {
    (!text.is_empty() && text.len() <= MAX_NAME_BYTES).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[track_caller]
    fn check(names: Vec<SanType>, common_name: Option<&str>, expected: Option<&str>) {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(common_name) = common_name {
            params.distinguished_name.push(DnType::CommonName, common_name);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let parsed = ClientCertificate::parse(certificate.der());
        let principal = parsed.map(|it| it.principal.to_string());
        assert_eq!(principal.ok().as_deref(), expected);
    }

    #[test]
    fn the_first_alternative_name_by_kind_is_the_principal_and_the_common_name_is_the_last_choice()
    {
        let uri = || SanType::URI("spiffe://example.org/ci".try_into().expect("ASCII"));
        let email = || SanType::Rfc822Name("ada@example.org".try_into().expect("ASCII"));
        let dns = || SanType::DnsName("ci.example.org".try_into().expect("ASCII"));
        check(vec![dns(), email(), uri()], Some("cn"), Some("cert:spiffe://example.org/ci"));
        check(vec![dns(), email()], Some("cn"), Some("cert:ada@example.org"));
        check(vec![dns()], Some("cn"), Some("cert:ci.example.org"));
        check(vec![], Some("Grace Hopper"), Some("cert:Grace\\u{20}Hopper"));
        check(vec![], None, None);
        check(vec![], Some(&"x".repeat(300)), None);
        assert_eq!(ClientCertificate::parse(b"no"), Err(CertificateNameError::Malformed));
    }

    #[test]
    fn the_validity_of_a_certificate_is_read() {
        let mut params = CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let seconds = |it: u64| UNIX_EPOCH + Duration::from_secs(it);
        let expected = (seconds(946_684_800), seconds(978_307_200));
        assert_eq!(certificate_validity(certificate.der()), Some(expected));
        assert_eq!(certificate_validity(b"no"), None);
    }
}
