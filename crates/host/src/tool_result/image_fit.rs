//! Makes pictures fit for a model: decoded by a real decoder within limits, made smaller, written anew where needed.
//! What a picture is stands in its bytes; what the server says of it is not asked.

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

/// How a picture has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// The most pixels of the longer side.
    pub longest_side: u32,
    /// The most pixels in all.
    pub pixels: u64,
    /// The most characters of base64 that are passed on.
    pub base64: usize,
    /// The most characters of base64 that are looked at.
    pub max_input_base64: usize,
    /// The most pixels of a side that are decoded.
    pub decoded_side: u32,
    /// The most pixels in all that are decoded.
    pub decoded_pixels: u64,
    /// The most bytes that decoding may take.
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

/// Why a picture cannot be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ImageRejection {
    /// It is of no kind that we decode.
    #[error("it is no PNG, JPEG, GIF or WebP")]
    UnsupportedFormat,
    /// It is larger than we are willing to look at.
    #[error("it is too large to look at")]
    TooLarge,
    /// The decoder cannot make sense of it.
    #[error("it is broken")]
    Corrupt,
    /// However small it is made, it takes too many bytes.
    #[error("it cannot be made small enough")]
    Incompressible,
    /// There are too many pictures in the answer.
    #[error("the answer holds too many pictures")]
    TooMany,
}

/// A picture that fits.
#[derive(Debug)]
pub(crate) struct FittedImage {
    /// What came.
    pub found: &'static str,
    /// What is passed on.
    pub mime: &'static str,
    /// None where the bytes that came fit as they are.
    pub bytes: Option<Vec<u8>>,
    pub size: (u32, u32),
    pub original_size: (u32, u32),
    pub animation: Animation,
}

/// Does a picture move?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Animation {
    Static,
    Animated,
}

struct DecodedImage {
    image_data: DynamicImage,
    format: ImageFormat,
    was: (u32, u32),
    orientation: Orientation,
    motion: Animation,
}

struct EncodedImage {
    mime: &'static str,
    bytes: Vec<u8>,
    size: (u32, u32),
}

/// Makes a picture fit. Decoders read what strangers wrote: if one panics, the picture is broken and all else goes on.
pub(crate) fn fit(bytes: &[u8], limits: &ImageLimits) -> Result<FittedImage, ImageRejection> {
    panic::catch_unwind(|| fit_unguarded(bytes, limits)).unwrap_or(Err(ImageRejection::Corrupt))
}

fn fit_unguarded(bytes: &[u8], limits: &ImageLimits) -> Result<FittedImage, ImageRejection> {
    let DecodedImage { mut image_data, format, was, orientation, motion } = decode(bytes, limits)?;
    let found = format.to_mime_type();
    let size = target_size(was, limits);
    let stays =
        orientation == Orientation::NoTransforms && motion == Animation::Static && size == was;
    if stays && base64_length(bytes.len()) <= limits.base64 {
        return Ok(FittedImage {
            found,
            mime: found,
            bytes: None,
            size,
            original_size: was,
            animation: motion,
        });
    }
    image_data = resize(image_data, size)?;
    image_data.apply_orientation(orientation);
    let EncodedImage { mime, bytes, size } = encode(image_data, format, limits)?;
    let was = oriented_size(was, orientation);
    Ok(FittedImage { found, mime, bytes: Some(bytes), size, original_size: was, animation: motion })
}

/// The size of a picture that lies on its side, once it stands.
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
    // The header is read and nothing else: whoever claims a huge picture is sent away before room is made for it.
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
    let motion = detect_animation(bytes, format, &bounds);
    Ok(DecodedImage { image_data, format, was: (width, height), orientation, motion })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the decoder's list of failures is open")]
fn decode_rejection(error: image::ImageError) -> ImageRejection {
    match error {
        image::ImageError::Limits(_) => ImageRejection::TooLarge,
        _ => ImageRejection::Corrupt,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other formats are not decoded at all")]
fn detect_animation(bytes: &[u8], format: ImageFormat, bounds: &image::Limits) -> Animation {
    let moves = match format {
        ImageFormat::Gif => GifDecoder::new(Cursor::new(bytes)).is_ok_and(|mut decoder| {
            decoder.set_limits(bounds.clone()).is_ok()
                && decoder.into_frames().take(2).flatten().count() > 1
        }),
        ImageFormat::WebP => {
            WebPDecoder::new(Cursor::new(bytes)).is_ok_and(|decoder| decoder.has_animation())
        }
        _ => false,
    };
    if moves { Animation::Animated } else { Animation::Static }
}

/// The size that a picture may have: the same shape, within both limits.
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
        reason = "it is less than the side it comes from, and not negative"
    )]
    // What is whole but for the rounding of fractions is whole.
    let side = (f64::from(side) * scale + 1e-6).floor() as u32;
    side.max(1)
}

/// Eight bits a channel are all that is passed on, and what the resizing is quickest with.
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

/// Drawings stay sharp as PNG where that is small; everything else becomes a JPEG, coarser until it fits.
fn encode(
    mut image_data: DynamicImage,
    format: ImageFormat,
    limits: &ImageLimits,
) -> Result<EncodedImage, ImageRejection> {
    const SMALL: usize = 1024 * 1024;
    const QUALITIES: [u8; 4] = [85, 70, 50, 30];
    const HALVINGS: usize = 4;
    for _ in 0..=HALVINGS {
        let size = (image_data.width(), image_data.height());
        if format != ImageFormat::Jpeg {
            let bytes = as_png(&image_data)?;
            if base64_length(bytes.len()) <= limits.base64.min(SMALL) {
                return Ok(EncodedImage { mime: "image/png", bytes, size });
            }
        }
        let flat = flatten_on_white(&image_data);
        for quality in QUALITIES {
            let mut bytes = Vec::new();
            JpegEncoder::new_with_quality(&mut bytes, quality)
                .encode_image(&flat)
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

/// A JPEG cannot be seen through; white is what is behind most drawings.
fn flatten_on_white(image_data: &DynamicImage) -> RgbImage {
    if image_data.color() != ColorType::Rgba8 {
        return image_data.to_rgb8();
    }
    let rgba = image_data.to_rgba8();
    RgbImage::from_fn(rgba.width(), rgba.height(), |x, y| {
        let [red, green, blue, alpha] = rgba.get_pixel(x, y).0;
        let over = |channel: u8| {
            let sum = u16::from(channel) * u16::from(alpha) + 255 * (255 - u16::from(alpha));
            u8::try_from(sum / 255).unwrap_or(u8::MAX)
        };
        Rgb([over(red), over(green), over(blue)])
    })
}

/// How long some bytes are as base64.
pub(crate) fn base64_length(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_the_longer_side_and_the_number_of_pixels_are_bounded() {
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
    fn a_picture_that_lies_on_its_side_is_set_upright() {
        assert_eq!(oriented_size((3, 2), Orientation::Rotate90), (2, 3));
        assert_eq!(oriented_size((3, 2), Orientation::Rotate180), (3, 2));
    }

    #[test]
    fn the_length_of_base64_is_known_before_it_is_written() {
        for (bytes, length) in [(0, 0), (1, 4), (3, 4), (4, 8)] {
            assert_eq!(base64_length(bytes), length);
        }
    }
}
