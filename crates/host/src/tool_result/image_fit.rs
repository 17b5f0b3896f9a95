//! Fits images to a model's limits: decodes within limits, shrinks, and encodes again where needed. The format is
//! detected from the bytes; the server's claim is ignored.

use std::io::Cursor;
use std::panic;

use fast_image_resize::{ResizeOptions, Resizer};
use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{
    AnimationDecoder, ColorType, DynamicImage, ImageDecoder, ImageFormat, ImageReader, Rgb,
    RgbImage,
};
use thiserror::Error;

/// Limits on images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// The maximum length of the longer side in pixels.
    pub longest_side: u32,
    /// The maximum number of pixels.
    pub pixels: u64,
    /// The maximum base64 length of an output image.
    pub base64: usize,
    /// The maximum base64 length of an input image.
    pub max_input_base64: usize,
    /// The maximum length of a side that is decoded, in pixels.
    pub decoded_side: u32,
    /// The maximum number of pixels that are decoded.
    pub decoded_pixels: u64,
    /// The maximum memory of a decoder in bytes.
    pub memory: u64,
}

impl Default for ImageLimits {
    fn default() -> ImageLimits {
        ImageLimits {
            longest_side: 1568,
            pixels: 1_150_000,
            base64: 5 * 1024 * 1024,
            max_input_base64: 10 * 1024 * 1024,
            decoded_side: 16_384,
            decoded_pixels: 40_000_000,
            memory: 192 * 1024 * 1024,
        }
    }
}

/// Why an image is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImageRejection {
    /// The format is not supported.
    #[error("it is not a PNG, JPEG, GIF or WebP image")]
    UnsupportedFormat,
    /// The image exceeds the input limits.
    #[error("it is too large to decode")]
    TooLarge,
    /// The decoder failed.
    #[error("it is corrupt")]
    Corrupt,
    /// Even the smallest version exceeds the output limit.
    #[error("it cannot be compressed enough")]
    Incompressible,
    /// The result contains too many images.
    #[error("the result contains too many images")]
    TooMany,
}

/// An image within the limits.
#[derive(Debug)]
pub(crate) struct FittedImage {
    /// The type of the input.
    pub detected_mime: &'static str,
    /// The type of the output.
    pub mime: &'static str,
    /// `None` if the input bytes fit as they are.
    pub bytes: Option<Vec<u8>>,
    pub size: (u32, u32),
    pub original_size: (u32, u32),
    pub animation: Animation,
}

/// Whether an image is animated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Animation {
    Static,
    Animated,
}

struct DecodedImage {
    image_data: DynamicImage,
    format: ImageFormat,
    original_size: (u32, u32),
    orientation: Orientation,
    animation: Animation,
}

struct EncodedImage {
    mime: &'static str,
    bytes: Vec<u8>,
    size: (u32, u32),
}

/// Fits an image. If a decoder panics on untrusted input, the image counts as corrupt.
pub(crate) fn fit(bytes: &[u8], limits: &ImageLimits) -> Result<FittedImage, ImageRejection> {
    panic::catch_unwind(|| fit_unguarded(bytes, limits)).unwrap_or(Err(ImageRejection::Corrupt))
}

fn fit_unguarded(bytes: &[u8], limits: &ImageLimits) -> Result<FittedImage, ImageRejection> {
    let DecodedImage { mut image_data, format, original_size, orientation, animation } =
        decode(bytes, limits)?;
    let detected_mime = format.to_mime_type();
    let size = target_size(original_size, limits);
    let is_unchanged = orientation == Orientation::NoTransforms
        && animation == Animation::Static
        && size == original_size;
    if is_unchanged && base64_length(bytes.len()) <= limits.base64 {
        return Ok(FittedImage {
            detected_mime,
            mime: detected_mime,
            bytes: None,
            size,
            original_size,
            animation,
        });
    }
    image_data = resize(image_data, size)?;
    image_data.apply_orientation(orientation);
    let EncodedImage { mime, bytes, size } = encode(image_data, format, limits)?;
    let original_size = oriented_size(original_size, orientation);
    Ok(FittedImage { detected_mime, mime, bytes: Some(bytes), size, original_size, animation })
}

/// The size of an image after its orientation is applied.
fn oriented_size((width, height): (u32, u32), orientation: Orientation) -> (u32, u32) {
    match orientation {
        Orientation::Rotate90
        | Orientation::Rotate270
        | Orientation::Rotate90FlipH
        | Orientation::Rotate270FlipH => (height, width),
        Orientation::NoTransforms
        | Orientation::Rotate180
        | Orientation::FlipHorizontal
        | Orientation::FlipVertical => (width, height),
    }
}

fn format_of(bytes: &[u8]) -> Result<ImageFormat, ImageRejection> {
    match infer::get(bytes).map(|kind| kind.mime_type()) {
        Some("image/png") => Ok(ImageFormat::Png),
        Some("image/jpeg") => Ok(ImageFormat::Jpeg),
        Some("image/gif") => Ok(ImageFormat::Gif),
        Some("image/webp") => Ok(ImageFormat::WebP),
        Some(_) | None => Err(ImageRejection::UnsupportedFormat),
    }
}

fn decode(bytes: &[u8], limits: &ImageLimits) -> Result<DecodedImage, ImageRejection> {
    let format = format_of(bytes)?;
    let mut bounds = image::Limits::no_limits();
    bounds.max_image_width = Some(limits.decoded_side);
    bounds.max_image_height = Some(limits.decoded_side);
    bounds.max_alloc = Some(limits.memory);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(bounds.clone());
    let mut decoder = reader.into_decoder().map_err(decode_rejection)?;
    // Only the header is read here: images with huge dimensions are rejected before memory is allocated.
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels > limits.decoded_pixels || decoder.total_bytes() > limits.memory {
        return Err(ImageRejection::TooLarge);
    }
    if pixels == 0 {
        return Err(ImageRejection::Corrupt);
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let image_data = DynamicImage::from_decoder(decoder).map_err(decode_rejection)?;
    let animation = detect_animation(bytes, format, &bounds);
    Ok(DecodedImage { image_data, format, original_size: (width, height), orientation, animation })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`image::ImageError` is non-exhaustive")]
fn decode_rejection(error: image::ImageError) -> ImageRejection {
    match error {
        image::ImageError::Limits(_) => ImageRejection::TooLarge,
        _ => ImageRejection::Corrupt,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other formats are not decoded")]
fn detect_animation(bytes: &[u8], format: ImageFormat, bounds: &image::Limits) -> Animation {
    let is_animated = match format {
        ImageFormat::Gif => GifDecoder::new(Cursor::new(bytes)).is_ok_and(|mut decoder| {
            decoder.set_limits(bounds.clone()).is_ok()
                && decoder.into_frames().take(2).flatten().count() > 1
        }),
        ImageFormat::WebP => {
            WebPDecoder::new(Cursor::new(bytes)).is_ok_and(|decoder| decoder.has_animation())
        }
        _ => false,
    };
    if is_animated { Animation::Animated } else { Animation::Static }
}

/// The largest size with the same aspect ratio within both limits.
fn target_size((width, height): (u32, u32), limits: &ImageLimits) -> (u32, u32) {
    let (w, h) = (f64::from(width), f64::from(height));
    let by_side = f64::from(limits.longest_side) / w.max(h);
    #[expect(clippy::cast_precision_loss, reason = "a number of pixels is far below 2^52")]
    let by_pixels = (limits.pixels as f64 / (w * h)).sqrt();
    let scale = by_side.min(by_pixels);
    if scale >= 1.0 { (width, height) } else { (scaled(width, scale), scaled(height, scale)) }
}

fn scaled(side: u32, scale: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the result is not negative and less than the input"
    )]
    // The offset corrects the rounding error of results that should be integers.
    let side = (f64::from(side) * scale + 1e-6).floor() as u32;
    side.max(1)
}

/// Converts to 8 bits per channel, the output format and the fastest to resize, and resizes.
fn resize(image_data: DynamicImage, size: (u32, u32)) -> Result<DynamicImage, ImageRejection> {
    let image_data = if image_data.color().has_alpha() {
        DynamicImage::ImageRgba8(image_data.into_rgba8())
    } else {
        DynamicImage::ImageRgb8(image_data.into_rgb8())
    };
    if (image_data.width(), image_data.height()) == size {
        return Ok(image_data);
    }
    let mut smaller = DynamicImage::new(size.0, size.1, image_data.color());
    Resizer::new()
        .resize(&image_data, &mut smaller, &ResizeOptions::new())
        .map_err(|_| ImageRejection::Corrupt)?;
    Ok(smaller)
}

/// Encodes as PNG if that is small, which keeps drawings sharp; otherwise as JPEG with decreasing quality until it
/// fits.
fn encode(
    mut image_data: DynamicImage,
    format: ImageFormat,
    limits: &ImageLimits,
) -> Result<EncodedImage, ImageRejection> {
    const MAX_PNG_BASE64: usize = 1024 * 1024;
    const QUALITIES: [u8; 4] = [85, 70, 50, 30];
    const MAX_HALVINGS: usize = 4;
    for _ in 0..=MAX_HALVINGS {
        let size = (image_data.width(), image_data.height());
        if format != ImageFormat::Jpeg {
            let bytes = as_png(&image_data)?;
            if base64_length(bytes.len()) <= limits.base64.min(MAX_PNG_BASE64) {
                return Ok(EncodedImage { mime: "image/png", bytes, size });
            }
        }
        let flattened = flatten_on_white(&image_data);
        for quality in QUALITIES {
            let mut bytes = Vec::new();
            JpegEncoder::new_with_quality(&mut bytes, quality)
                .encode_image(&flattened)
                .map_err(|_| ImageRejection::Corrupt)?;
            if base64_length(bytes.len()) <= limits.base64 {
                return Ok(EncodedImage { mime: "image/jpeg", bytes, size });
            }
        }
        image_data = resize(image_data, ((size.0 / 2).max(1), (size.1 / 2).max(1)))?;
    }
    Err(ImageRejection::Incompressible)
}

fn as_png(image_data: &DynamicImage) -> Result<Vec<u8>, ImageRejection> {
    let mut bytes = Vec::new();
    let encoder =
        PngEncoder::new_with_quality(&mut bytes, CompressionType::Default, FilterType::Adaptive);
    image_data.write_with_encoder(encoder).map_err(|_| ImageRejection::Corrupt)?;
    Ok(bytes)
}

/// JPEG has no transparency; white is the most likely background.
fn flatten_on_white(image_data: &DynamicImage) -> RgbImage {
    if image_data.color() != ColorType::Rgba8 {
        return image_data.to_rgb8();
    }
    let rgba = image_data.to_rgba8();
    RgbImage::from_fn(rgba.width(), rgba.height(), |x, y| {
        let [red, green, blue, alpha] = rgba.get_pixel(x, y).0;
        let blend = |channel: u8| {
            let sum = u16::from(channel) * u16::from(alpha) + 255 * (255 - u16::from(alpha));
            u8::try_from(sum / 255).unwrap_or(u8::MAX)
        };
        Rgb([blend(red), blend(green), blend(blue)])
    })
}

/// The length of some bytes as base64.
pub(crate) fn base64_length(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_the_longer_side_and_the_pixel_count_are_limited() {
        for (size, expected) in [
            ((3000, 1000), (1568, 522)),
            ((1500, 1500), (1072, 1072)),
            ((3000, 1500), (1516, 758)),
            ((1568, 700), (1568, 700)),
            ((1, 16_000), (1, 1568)),
            ((10, 10), (10, 10)),
        ] {
            assert_eq!(target_size(size, &ImageLimits::default()), expected, "{size:?}");
        }
    }

    #[test]
    fn a_rotated_image_swaps_its_sides() {
        assert_eq!(oriented_size((3, 2), Orientation::Rotate90), (2, 3));
        assert_eq!(oriented_size((3, 2), Orientation::Rotate180), (3, 2));
    }

    #[test]
    fn base64_length_includes_padding() {
        for (bytes, length) in [(0, 0), (1, 4), (3, 4), (4, 8)] {
            assert_eq!(base64_length(bytes), length);
        }
    }
}
