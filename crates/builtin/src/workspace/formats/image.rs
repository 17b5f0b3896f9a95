//! Scales pictures down to a size that models accept.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::decode_budget::{DECODE_BUDGET, MAX_DECODED_BYTES};

/// Larger pictures, in bytes or in pixels per side, are scaled down.
const MAX_UNCHANGED_BYTES: usize = 3 * 1024 * 1024;
const MAX_UNCHANGED_SIDE: u32 = 2000;
/// The longest side of a scaled picture.
const RESIZED_SIDE: u32 = 1568;
/// Limits for decoding a picture.
const MAX_DECODED_SIDE: u32 = 20_000;
const JPEG_QUALITY: u8 = 85;

/// A picture to show.
#[derive(Debug)]
pub(crate) struct PreparedImage {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mime_type: &'static str,
    pub(crate) size: (u32, u32),
}

/// The format of a picture, detected from its content, if it can be shown.
pub(crate) fn detect_format(bytes: &[u8]) -> Option<ImageFormat> {
    let supported = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP];
    image::guess_format(bytes).ok().filter(|format| supported.contains(format))
}

/// The picture, scaled down if needed.
pub(crate) fn prepare(bytes: &[u8], format: ImageFormat) -> Option<PreparedImage> {
    let size = limited_reader(bytes, format).into_dimensions().ok()?;
    if bytes.len() <= MAX_UNCHANGED_BYTES && size.0.max(size.1) <= MAX_UNCHANGED_SIDE {
        return Some(PreparedImage {
            bytes: bytes.to_vec(),
            mime_type: format.to_mime_type(),
            size,
        });
    }
    // Known from the header, and given back when only the small picture is left.
    let decoder = limited_reader(bytes, format).into_decoder().ok()?;
    let needed = Some(estimated_memory(decoder.total_bytes(), format));
    let permit = DECODE_BUDGET.acquire(needed.filter(|it| *it <= MAX_DECODED_BYTES)?);
    let image = DynamicImage::from_decoder(decoder).ok()?.thumbnail(RESIZED_SIDE, RESIZED_SIDE);
    drop(permit);
    encode(&image)
}

/// The memory to decode a picture. Decoders of animations keep a canvas beside the picture.
fn estimated_memory(decoded_bytes: u64, format: ImageFormat) -> u64 {
    let is_animation = matches!(format, ImageFormat::Gif | ImageFormat::WebP);
    if is_animation { decoded_bytes.saturating_mul(2) } else { decoded_bytes }
}

fn limited_reader(bytes: &[u8], format: ImageFormat) -> ImageReader<Cursor<&[u8]>> {
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    limits.max_image_width = Some(MAX_DECODED_SIDE);
    limits.max_image_height = Some(MAX_DECODED_SIDE);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits);
    reader
}

fn encode(image: &DynamicImage) -> Option<PreparedImage> {
    let mut bytes = Vec::new();
    let mime_type = match image.color().has_alpha() {
        true => {
            image.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).ok()?;
            ImageFormat::Png.to_mime_type()
        }
        false => {
            let encoder = JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY);
            image.to_rgb8().write_with_encoder(encoder).ok()?;
            ImageFormat::Jpeg.to_mime_type()
        }
    };
    Some(PreparedImage { bytes, mime_type, size: (image.width(), image.height()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let image = DynamicImage::new_rgb8(width, height);
        image.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
        bytes
    }

    #[test]
    fn a_large_picture_is_scaled_down() {
        let small = png(30, 20);
        assert_eq!(detect_format(&small), Some(ImageFormat::Png));
        let fitted_small = prepare(&small, ImageFormat::Png).unwrap();
        assert_eq!((fitted_small.bytes, fitted_small.size), (small, (30, 20)));
        let large = prepare(&png(3000, 1500), ImageFormat::Png).unwrap();
        assert_eq!((large.mime_type, large.size), ("image/jpeg", (1568, 784)));
    }

    #[test]
    fn a_truncated_picture_is_refused() {
        let broken = &png(30, 20)[..20];
        assert_eq!(detect_format(broken), Some(ImageFormat::Png));
        assert!(prepare(broken, ImageFormat::Png).is_none());
        assert_eq!(detect_format(b"BM plain text"), None);
    }
}
