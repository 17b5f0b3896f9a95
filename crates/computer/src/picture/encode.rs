//! Encodes pictures: lossless PNG while it is small, otherwise JPEG.

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};

use crate::error::Result;

/// The largest PNG that is handed out.
const MAX_PNG_BYTES: usize = 1_000_000;
const JPEG_QUALITY: u8 = 85;

/// An encoded picture.
#[derive(Debug)]
pub(crate) struct EncodedPicture {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mime_type: &'static str,
}

/// Encodes RGB bytes.
pub(crate) fn encode(rgb: &[u8], (width, height): (u32, u32)) -> Result<EncodedPicture> {
    let mut bytes = Vec::with_capacity(256 * 1024);
    PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Up).write_image(
        rgb,
        width,
        height,
        ExtendedColorType::Rgb8,
    )?;
    if bytes.len() <= MAX_PNG_BYTES {
        return Ok(EncodedPicture { bytes, mime_type: "image/png" });
    }
    bytes.clear();
    JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY).write_image(
        rgb,
        width,
        height,
        ExtendedColorType::Rgb8,
    )?;
    Ok(EncodedPicture { bytes, mime_type: "image/jpeg" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_picture_is_lossless_and_a_noisy_one_is_compressed() {
        let plain = encode(&[7; 300 * 200 * 3], (300, 200)).expect("it is encoded");
        assert_eq!(plain.mime_type, "image/png");
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noisy: Vec<u8> = (0..1000 * 700 * 3).map(|_| noise()).collect();
        let noisy = encode(&noisy, (1000, 700)).expect("it is encoded");
        assert_eq!(noisy.mime_type, "image/jpeg");
        assert!(noisy.bytes.len() < 1000 * 700 * 3, "{}", noisy.bytes.len());
    }
}
