//! A detached CMS signature (RFC 5652) with signed attributes, one signer, and SHA-256. The attributes are verified as
//! they were received, because not every program sorts them.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode, Encode, Reader, SliceReader, Tag, TagNumber};
use x509_cert::Certificate;
use x509_cert::ext::pkix::SubjectKeyIdentifier;
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::bundle::error::SignatureFault;

const DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
const SHA_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_SHA_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const EC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const ECDSA_SHA_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const P_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P_384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");

/// How many certificates are read.
const MAX_CERTIFICATES: usize = 16;
/// The tag of a set, which signed attributes have in what is signed.
const SET_TAG: u8 = 0x31;

/// A signature that verifies with the key of its certificate.
#[derive(Debug)]
pub(super) struct VerifiedSignature {
    /// The certificate of the signer.
    pub(super) certificate: Certificate,
    /// The same as bytes.
    pub(super) der: Vec<u8>,
    /// The other certificates, as bytes.
    pub(super) others: Vec<Vec<u8>>,
    /// The certificate is signed with its own key.
    pub(super) is_self_signed: bool,
}

/// Verifies a signature over content with this SHA-256.
pub(super) fn verify(signature: &[u8], digest: &[u8]) -> Result<VerifiedSignature, SignatureFault> {
    let parsed = parse(signature).map_err(|_| SignatureFault::Structure)?;
    let [signer] = parsed.signers.as_slice() else { return Err(SignatureFault::SignerCount) };
    let signer = SignerInfo::parse(signer).map_err(|_| SignatureFault::Structure)?;
    if signer.digest_algorithm != SHA_256 {
        return Err(SignatureFault::Algorithm);
    }
    check_attributes(&signer, parsed.content_type, digest)?;
    let mut certificates = Vec::new();
    for der in &parsed.certificates {
        let read = Certificate::from_der(der).map_err(|_| SignatureFault::Certificate)?;
        certificates.push((read, der.to_vec()));
    }
    let position = certificates.iter().position(|(it, _)| signer.is_by(it)).or_else(|| {
        // The packing tool encodes an issuer with other characters than ASCII twice. Which certificate is meant decides
        // nothing: its key must have made the signature.
        let mut same = certificates.iter().enumerate().filter(|(_, (it, _))| signer.has_serial(it));
        let (only, _) = same.next()?;
        same.next().is_none().then_some(only)
    });
    let (certificate, der) = certificates.remove(position.ok_or(SignatureFault::Certificate)?);
    let mut signed = signer.attributes.to_vec();
    if let Some(tag) = signed.first_mut() {
        *tag = SET_TAG;
    }
    let key = &certificate.tbs_certificate.subject_public_key_info;
    verify_with(key, signer.signature_algorithm, &signed, signer.signature)?;
    let is_self_signed = is_self_signed(&certificate);
    let others = certificates.into_iter().map(|(_, der)| der).collect();
    Ok(VerifiedSignature { certificate, der, others, is_self_signed })
}

/// The parts of `SignedData` that count.
struct SignedData<'a> {
    content_type: ObjectIdentifier,
    certificates: Vec<&'a [u8]>,
    signers: Vec<AnyRef<'a>>,
}

fn parse(bytes: &[u8]) -> der::Result<SignedData<'_>> {
    let invalid = || der::Error::from(der::ErrorKind::Failed);
    let outer = AnyRef::from_der(bytes)?;
    let mut content_info = members(outer, Tag::Sequence)?;
    if ObjectIdentifier::decode(&mut content_info)? != SIGNED_DATA {
        return Err(invalid());
    }
    let explicit = AnyRef::decode(&mut content_info)?;
    let mut explicit = members(explicit, context(0))?;
    let mut signed_data = members(AnyRef::decode(&mut explicit)?, Tag::Sequence)?;
    let _version = u8::decode(&mut signed_data)?;
    let _digest_algorithms = AnyRef::decode(&mut signed_data)?;
    let mut content = members(AnyRef::decode(&mut signed_data)?, Tag::Sequence)?;
    let content_type = ObjectIdentifier::decode(&mut content)?;
    // The content is the archive, not a copy inside the signature.
    if content_type != DATA || !content.is_finished() {
        return Err(invalid());
    }
    let mut certificates = Vec::new();
    let mut next = AnyRef::decode(&mut signed_data)?;
    if der::Tagged::tag(&next) == context(0) {
        let mut set = members(next, context(0))?;
        while !set.is_finished() && certificates.len() < MAX_CERTIFICATES {
            let certificate = set.tlv_bytes()?;
            certificates.push(certificate);
        }
        next = AnyRef::decode(&mut signed_data)?;
    }
    if der::Tagged::tag(&next) == context(1) {
        next = AnyRef::decode(&mut signed_data)?;
    }
    let mut set = members(next, Tag::Set)?;
    let mut signers = Vec::new();
    while !set.is_finished() && signers.len() < 2 {
        signers.push(AnyRef::decode(&mut set)?);
    }
    Ok(SignedData { content_type, certificates, signers })
}

fn context(number: u8) -> Tag {
    Tag::ContextSpecific { constructed: true, number: TagNumber::new(number) }
}

/// The members of a value of this tag.
fn members<'a>(value: AnyRef<'a>, tag: Tag) -> der::Result<SliceReader<'a>> {
    der::Tagged::tag(&value).assert_eq(tag)?;
    SliceReader::new(value.value())
}

/// The algorithm of an `AlgorithmIdentifier`, whose parameters do not count.
fn algorithm(value: AnyRef<'_>) -> der::Result<ObjectIdentifier> {
    ObjectIdentifier::decode(&mut members(value, Tag::Sequence)?)
}

/// One signature.
struct SignerInfo<'a> {
    identifier: AnyRef<'a>,
    digest_algorithm: ObjectIdentifier,
    attributes: &'a [u8],
    signature_algorithm: ObjectIdentifier,
    signature: &'a [u8],
}

impl<'a> SignerInfo<'a> {
    fn parse(value: &AnyRef<'a>) -> der::Result<SignerInfo<'a>> {
        let mut reader = members(*value, Tag::Sequence)?;
        let _version = u8::decode(&mut reader)?;
        let identifier = AnyRef::decode(&mut reader)?;
        let digest_algorithm = algorithm(AnyRef::decode(&mut reader)?)?;
        reader.peek_tag()?.assert_eq(context(0))?;
        let attributes = reader.tlv_bytes()?;
        let signature_algorithm = algorithm(AnyRef::decode(&mut reader)?)?;
        let signature = AnyRef::decode(&mut reader)?;
        der::Tagged::tag(&signature).assert_eq(Tag::OctetString)?;
        let signature = signature.value();
        Ok(SignerInfo { identifier, digest_algorithm, attributes, signature_algorithm, signature })
    }

    /// The issuer and the serial number of the signer's certificate, if that is how it is named.
    fn issuer_and_serial(&self) -> Option<(Name, SerialNumber)> {
        let mut reader = members(self.identifier, Tag::Sequence).ok()?;
        let issuer = Name::decode(&mut reader).ok()?;
        Some((issuer, SerialNumber::decode(&mut reader).ok()?))
    }

    /// Has the certificate the serial number of the signer's?
    fn has_serial(&self, certificate: &Certificate) -> bool {
        let serial = &certificate.tbs_certificate.serial_number;
        self.issuer_and_serial().is_some_and(|(_, it)| it == *serial)
    }

    /// Is this the certificate of the signer?
    fn is_by(&self, certificate: &Certificate) -> bool {
        let certificate = &certificate.tbs_certificate;
        match self.issuer_and_serial() {
            Some((issuer, serial)) => {
                issuer == certificate.issuer && serial == certificate.serial_number
            }
            None => matches!(
                certificate.get::<SubjectKeyIdentifier>(),
                Ok(Some((_, key))) if key.0.as_bytes() == self.identifier.value()
            ),
        }
    }
}

/// Checks that the attributes name the type of the content and its digest, each once.
fn check_attributes(
    signer: &SignerInfo<'_>,
    content_type: ObjectIdentifier,
    digest: &[u8],
) -> Result<(), SignatureFault> {
    let attributes = AnyRef::from_der(signer.attributes);
    let attributes = attributes.and_then(|it| members(it, context(0)));
    let mut attributes = attributes.map_err(|_| SignatureFault::Structure)?;
    let (mut types, mut digests) = (Vec::new(), Vec::new());
    while !attributes.is_finished() {
        let (name, values) = attribute(&mut attributes).map_err(|_| SignatureFault::Structure)?;
        if name == CONTENT_TYPE {
            types.extend(values);
        } else if name == MESSAGE_DIGEST {
            digests.extend(values);
        }
    }
    let ([named_type], [signed_digest]) = (types.as_slice(), digests.as_slice()) else {
        return Err(SignatureFault::Attributes);
    };
    if named_type.decode_as::<ObjectIdentifier>() != Ok(content_type) {
        return Err(SignatureFault::Attributes);
    }
    let is_digest = der::Tagged::tag(signed_digest) == Tag::OctetString;
    match is_digest && signed_digest.value() == digest {
        true => Ok(()),
        false => Err(SignatureFault::Digest),
    }
}

fn attribute<'a>(reader: &mut SliceReader<'a>) -> der::Result<(ObjectIdentifier, Vec<AnyRef<'a>>)> {
    let mut attribute = members(AnyRef::decode(reader)?, Tag::Sequence)?;
    let name = ObjectIdentifier::decode(&mut attribute)?;
    let mut set = members(AnyRef::decode(&mut attribute)?, Tag::Set)?;
    let mut values = Vec::new();
    while !set.is_finished() {
        values.push(AnyRef::decode(&mut set)?);
    }
    Ok((name, values))
}

/// Verifies a signature with a key. The algorithm must be one for this kind of key.
fn verify_with(
    key: &SubjectPublicKeyInfoOwned,
    algorithm: ObjectIdentifier,
    message: &[u8],
    signature: &[u8],
) -> Result<(), SignatureFault> {
    let curve = || {
        let parameters = key.algorithm.parameters.as_ref()?;
        parameters.decode_as::<ObjectIdentifier>().ok()
    };
    let kind = key.algorithm.oid;
    let verification: &'static dyn VerificationAlgorithm = match algorithm {
        RSA | RSA_SHA_256 if kind == RSA => &RSA_PKCS1_2048_8192_SHA256,
        ECDSA_SHA_256 if kind == EC_KEY && curve() == Some(P_256) => &ECDSA_P256_SHA256_ASN1,
        ECDSA_SHA_256 if kind == EC_KEY && curve() == Some(P_384) => &ECDSA_P384_SHA256_ASN1,
        _ => return Err(SignatureFault::Algorithm),
    };
    let key = UnparsedPublicKey::new(verification, key.subject_public_key.raw_bytes());
    key.verify(message, signature).map_err(|_| SignatureFault::Mismatch)
}

/// Is the certificate signed with its own key?
fn is_self_signed(certificate: &Certificate) -> bool {
    let inner = &certificate.tbs_certificate;
    if inner.issuer != inner.subject {
        return false;
    }
    let Ok(signed) = inner.to_der() else { return false };
    let key = &inner.subject_public_key_info;
    let signature = certificate.signature.raw_bytes();
    verify_with(key, certificate.signature_algorithm.oid, &signed, signature).is_ok()
}
