//! The signature behind the archive of a bundle: `MCPB_SIG_V1`, the length as a little-endian `u32`, a detached CMS
//! signature in DER, `MCPB_SIG_END`. It covers everything before it.

mod cms;
mod trust;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::error::SignatureFault;
pub use trust::{ChainFault, SignatureTrust};

const HEADER: &[u8] = b"MCPB_SIG_V1";
const FOOTER: &[u8] = b"MCPB_SIG_END";
const LENGTH_SIZE: usize = 4;
/// The maximum size of a signature with its certificates.
const MAX_SIGNATURE_SIZE: u64 = 1024 * 1024;

/// What a signature proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureState {
    /// There is no signature.
    Unsigned,
    /// The signature is valid, but anybody could have made the certificate.
    SelfSigned(Signer),
    /// The signature is valid, and an authority made the certificate.
    Signed {
        /// The signer.
        signer: Signer,
        /// Why the authority is not trusted; `None` if it is.
        fault: Option<ChainFault>,
    },
    /// The signature does not verify.
    Broken(SignatureFault),
}

/// The names in a certificate. Untrusted text, unless its authority is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// Who signed.
    pub subject: String,
    /// Who made the certificate.
    pub issuer: String,
}

impl SignatureState {
    /// The name for programs.
    pub fn id(&self) -> &'static str {
        match self {
            SignatureState::Unsigned => "unsigned",
            SignatureState::SelfSigned(_) => "self-signed",
            SignatureState::Signed { .. } => "signed",
            SignatureState::Broken(_) => "broken",
        }
    }

    /// The signer, if the signature is valid.
    pub fn signer(&self) -> Option<&Signer> {
        match self {
            SignatureState::SelfSigned(signer) | SignatureState::Signed { signer, .. } => {
                Some(signer)
            }
            SignatureState::Unsigned | SignatureState::Broken(_) => None,
        }
    }
}

/// The block of a signature and where it begins.
#[derive(Debug)]
pub(super) struct SignatureBlock {
    /// The size of what is signed.
    pub(super) content_size: u64,
    der: Vec<u8>,
}

impl SignatureBlock {
    /// Verifies the signature over content with this SHA-256.
    pub(super) fn verify(&self, digest: &[u8], trust: &SignatureTrust) -> SignatureState {
        match cms::verify(&self.der, digest) {
            Ok(verified) => trust.judge(verified),
            Err(fault) => SignatureState::Broken(fault),
        }
    }
}

/// Finds the signature at the end of a file; `None` if there is none.
pub(super) fn find_block(
    file: &mut File,
    size: u64,
) -> io::Result<Result<Option<SignatureBlock>, SignatureFault>> {
    let frame = (HEADER.len() + LENGTH_SIZE + FOOTER.len()) as u64;
    let tail_size = size.min(MAX_SIGNATURE_SIZE + frame);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(size - tail_size))?;
    file.take(tail_size).read_to_end(&mut tail)?;
    let Some(body) = tail.strip_suffix(FOOTER) else { return Ok(Ok(None)) };
    // The signature itself may contain the header's bytes, but only one place has the right length behind it.
    let found = (0..body.len()).rev().find_map(|start| {
        let rest = body[start..].strip_prefix(HEADER)?;
        let (length, der) = rest.split_first_chunk::<LENGTH_SIZE>()?;
        let fits = usize::try_from(u32::from_le_bytes(*length)) == Ok(der.len());
        fits.then_some((start, der))
    });
    Ok(match found {
        Some((start, der)) => {
            let content_size = size - tail.len() as u64 + start as u64;
            Ok(Some(SignatureBlock { content_size, der: der.to_vec() }))
        }
        None => Err(SignatureFault::Block),
    })
}
