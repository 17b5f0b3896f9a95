//! Converted results: valid and hostile images, files, truncated texts, and unknown content.

use std::fs;
use std::io::Cursor;
use std::num::NonZeroU64;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::codecs::gif::GifEncoder;
use image::{DynamicImage, Frame, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard::tool_result::{
    ContentBlock, ImageLimits, LineRange, OutputLimits, SpillStore, ToolOutput, from_resource_read,
    from_tool_call,
};
use switchboard::wire::jsonrpc::message::Payload;

struct Fixture {
    home: tempfile::TempDir,
    spill: SpillStore,
    limits: OutputLimits,
}

impl Fixture {
    fn new() -> Fixture {
        let home = tempfile::tempdir().expect("a temp folder");
        let spill = SpillStore::in_data_folder(home.path());
        Fixture { home, spill, limits: OutputLimits::default() }
    }

    fn with(limits: OutputLimits) -> Fixture {
        Fixture { limits, ..Fixture::new() }
    }

    fn raw(&self, text: &str) -> ToolOutput {
        let payload = Payload::from_json(text.to_owned().into());
        from_tool_call(&payload, "plugin:a/../b", &self.limits, &self.spill)
    }

    fn call(&self, content: Value) -> ToolOutput {
        self.raw(&json!({ "content": content }).to_string())
    }

    fn read(&self, contents: Value) -> ToolOutput {
        let payload = Payload::encode(&json!({ "contents": contents })).expect("JSON");
        from_resource_read(&payload, "files", &self.limits, &self.spill)
    }

    fn image(&self, bytes: &[u8], mime: &str) -> ToolOutput {
        self.call(json!([{ "type": "image", "data": STANDARD.encode(bytes), "mimeType": mime }]))
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.spill.folder).map_or(0, Iterator::count)
    }
}

fn notes(output: &ToolOutput) -> Vec<String> {
    output.notes.iter().map(ToString::to_string).collect()
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.to_owned(), from_uri: None }
}

/// A noisy image, which compresses badly.
fn noise(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let mixed = (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(40_503)).wrapping_mul(97) >> 7;
        let [a, b, c, _] = mixed.to_le_bytes();
        Rgb([a, b, c])
    })
}

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).expect("it can be written");
    bytes.into_inner()
}

/// The shown image: type, size and bytes.
fn shown(output: &ToolOutput) -> (&'static str, (u32, u32), Vec<u8>) {
    let [ContentBlock::Image { mime, base64, width, height }] = &output.blocks[..] else {
        panic!("one image was expected: {:?} {:?}", output.blocks, output.notes);
    };
    let bytes = STANDARD.decode(base64).expect("base64");
    let format = image::guess_format(&bytes).expect("an image");
    assert_eq!(format.to_mime_type(), *mime);
    let image = image::load_from_memory(&bytes).expect("it can be read");
    assert_eq!((image.width(), image.height()), (*width, *height));
    (mime, (*width, *height), bytes)
}

fn saved(block: &ContentBlock) -> (&Path, Option<&str>, Vec<u8>) {
    let ContentBlock::Saved { path, mime, bytes, .. } = block else {
        panic!("a file was expected: {block:?}");
    };
    let content = fs::read(path).expect("the file is there");
    assert_eq!(content.len() as u64, *bytes);
    (path, mime.as_deref(), content)
}

#[test]
fn a_small_image_of_each_format_is_unchanged() {
    let image = DynamicImage::ImageRgb8(noise(40, 30));
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
        let fixture = Fixture::new();
        let bytes = encoded(&image, format);
        let output = fixture.image(&bytes, format.to_mime_type());
        assert_eq!(shown(&output), (format.to_mime_type(), (40, 30), bytes), "{format:?}");
        assert_eq!((notes(&output), fixture.files()), (Vec::new(), 0), "{format:?}");
    }
}

#[test]
fn a_large_image_is_resized_with_its_aspect_ratio() {
    let image = ImageLimits { longest_side: 100, pixels: 20_000, ..ImageLimits::default() };
    let fixture = Fixture::with(OutputLimits { image, ..OutputLimits::default() });
    let large = DynamicImage::ImageRgb8(RgbImage::from_pixel(300, 150, Rgb([9, 99, 200])));
    for (format, mime) in [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Gif, "image/png"),
        (ImageFormat::WebP, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
    ] {
        let output = fixture.image(&encoded(&large, format), format.to_mime_type());
        let (found, size, _) = shown(&output);
        assert_eq!((found, size), (mime, (100, 50)), "{format:?}");
        let note = "an image was resized from 300x150 to 100x50 pixels";
        assert_eq!(notes(&output), [note]);
    }
    let strip = DynamicImage::ImageRgb8(RgbImage::new(16_000, 2));
    let output = fixture.image(&encoded(&strip, ImageFormat::Png), "image/png");
    assert_eq!(shown(&output).1, (100, 1));
}

#[test]
fn a_large_png_becomes_a_jpeg_on_white() {
    let mut image = DynamicImage::ImageRgb8(noise(300, 400)).into_rgba8();
    for (_, _, pixel) in image.enumerate_pixels_mut().filter(|(_, y, _)| *y < 200) {
        *pixel = Rgba([0, 0, 0, 0]);
    }
    let bytes = encoded(&DynamicImage::ImageRgba8(image), ImageFormat::Png);
    let image = ImageLimits { base64: 150_000, ..ImageLimits::default() };
    let fixture = Fixture::with(OutputLimits { image, ..OutputLimits::default() });
    let output = fixture.image(&bytes, "image/png");
    let (mime, size, bytes) = shown(&output);
    assert_eq!((mime, size), ("image/jpeg", (300, 400)));
    let read = image::load_from_memory(&bytes).expect("an image").into_rgb8();
    assert_eq!(read.get_pixel(100, 100), &Rgb([255, 255, 255]));
}

#[test]
fn an_image_is_compressed_then_resized_until_it_fits_or_is_saved() {
    let limits = |base64| OutputLimits {
        image: ImageLimits { base64, ..ImageLimits::default() },
        ..OutputLimits::default()
    };
    let bytes = encoded(&DynamicImage::ImageRgb8(noise(160, 160)), ImageFormat::Jpeg);
    let fixture = Fixture::with(limits(4_000));
    let output = fixture.image(&bytes, "image/jpeg");
    let (_, (width, _), small) = shown(&output);
    assert!(small.len() <= 3_000 && width < 160, "{} bytes, {width} wide", small.len());
    let fixture = Fixture::with(limits(100));
    let output = fixture.image(&bytes, "image/jpeg");
    assert_eq!(saved(&output.blocks[0]).2, bytes);
    let note = "an image was saved and not shown: it cannot be compressed enough";
    assert_eq!(notes(&output), [note]);
}

#[test]
fn an_animation_is_shown_as_its_first_frame() {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    for shade in [10, 200] {
        let frame = RgbaImage::from_pixel(20, 10, Rgba([shade, shade, shade, 255]));
        encoder.encode_frame(Frame::new(frame)).expect("a frame");
    }
    drop(encoder);
    let fixture = Fixture::new();
    let output = fixture.image(&bytes, "image/gif");
    let (mime, size, bytes) = shown(&output);
    assert_eq!((mime, size), ("image/png", (20, 10)));
    assert_eq!(notes(&output), ["an animation is shown as its first frame"]);
    let first = image::load_from_memory(&bytes).expect("an image").into_rgb8();
    assert!(first.get_pixel(5, 5).0[0] < 30);
}

#[test]
fn a_claimed_image_type_is_ignored() {
    let bytes = encoded(&DynamicImage::ImageRgb8(noise(10, 10)), ImageFormat::Png);
    let fixture = Fixture::new();
    let output = fixture.image(&bytes, "image/jpeg\u{1b}[31m");
    assert_eq!(shown(&output).0, "image/png");
    assert_eq!(notes(&output), ["an image is image/png, not the type that the server claims"]);
    let jpeg = encoded(&DynamicImage::ImageRgb8(noise(10, 10)), ImageFormat::Jpeg);
    assert_eq!(notes(&Fixture::new().image(&jpeg, "image/jpg")), Vec::<String>::new());
}

/// A chunk of a PNG.
fn chunk(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let covered = [&kind[..], body].concat();
    let length = u32::try_from(body.len()).expect("it is short");
    [&length.to_be_bytes()[..], &covered, &checksum(&covered).to_be_bytes()].concat()
}

/// The CRC-32 of PNG.
fn checksum(bytes: &[u8]) -> u32 {
    let shift = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |c, _| shift(c)))
}

fn png_that_claims(width: u32, height: u32, body: &[u8]) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 6, 0, 0, 0]].concat();
    let chunks = [chunk(b"IHDR", &header), chunk(b"IDAT", body), chunk(b"IEND", b"")].concat();
    [&b"\x89PNG\r\n\x1a\n"[..], &chunks].concat()
}

#[test]
fn an_image_with_huge_dimensions_is_saved_and_not_decoded() {
    for (width, height) in [(60_000, 60_000), (u32::MAX >> 1, 1), (16_000, 16_000), (1, 60_000)] {
        let bytes = png_that_claims(width, height, b"\x78\x01\x03\x00\x00\x00\x00\x01");
        let fixture = Fixture::new();
        let output = fixture.image(&bytes, "image/png");
        assert_eq!(saved(&output.blocks[0]).2, bytes);
        let note = "an image was saved and not shown: it is too large to decode";
        assert_eq!(notes(&output), [note], "{width}x{height}");
    }
}

#[test]
fn a_decompression_bomb_is_saved_and_not_decoded() {
    let huge = DynamicImage::ImageLuma8(image::GrayImage::new(15_000, 4_000));
    let bytes = encoded(&huge, ImageFormat::Png);
    assert!(bytes.len() < 400_000, "{} bytes", bytes.len());
    let fixture = Fixture::new();
    let output = fixture.image(&bytes, "image/png");
    assert_eq!(saved(&output.blocks[0]).1, Some("image/png"));
    let note = "an image was saved and not shown: it is too large to decode";
    assert_eq!(notes(&output), [note]);
}

#[test]
fn a_corrupt_image_is_saved_unchanged() {
    let mut bytes = encoded(&DynamicImage::ImageRgb8(noise(50, 50)), ImageFormat::Png);
    bytes.truncate(bytes.len() / 2);
    let fixture = Fixture::new();
    let output = fixture.image(&bytes, "image/png");
    let (path, mime, content) = saved(&output.blocks[0]);
    assert_eq!((mime, content), (Some("image/png"), bytes));
    assert_eq!(path.parent(), Some(fixture.spill.folder.as_path()));
    assert_eq!(notes(&output), ["an image was saved and not shown: it is corrupt"]);
}

#[test]
fn images_over_the_size_or_count_limit_are_saved() {
    let image = ImageLimits { max_input_base64: 400, ..ImageLimits::default() };
    let fixture = Fixture::with(OutputLimits { image, images: 1, ..OutputLimits::default() });
    let small = STANDARD.encode(encoded(&DynamicImage::new_rgb8(4, 4), ImageFormat::Png));
    let long = STANDARD.encode(encoded(&DynamicImage::ImageRgb8(noise(30, 30)), ImageFormat::Png));
    let one = |data: &str| json!({ "type": "image", "data": data, "mimeType": "image/png" });
    let output = fixture.call(json!([one(&small), one(&long), one(&small)]));
    assert!(matches!(
        &output.blocks[..],
        [ContentBlock::Image { .. }, ContentBlock::Saved { .. }, ContentBlock::Saved { .. }]
    ));
    assert_eq!(
        notes(&output),
        [
            "an image was saved and not shown: it is too large to decode",
            "an image was saved and not shown: the result contains too many images"
        ]
    );
}

#[test]
fn a_vector_graphic_is_saved_and_not_interpreted() {
    let svg = b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>1</script></svg>";
    let fixture = Fixture::new();
    let output = fixture.image(svg, "image/svg+xml");
    let (path, mime, content) = saved(&output.blocks[0]);
    assert_eq!((mime, content.as_slice()), (Some("image/svg+xml"), &svg[..]));
    assert_eq!(path.extension().and_then(|e| e.to_str()), Some("svg"));
    let note = "an image was saved and not shown: it is not a PNG, JPEG, GIF or WebP image";
    assert_eq!(notes(&output), [note]);
}

#[test]
fn audio_and_blobs_are_saved_under_our_file_names() {
    let wav = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00";
    let fixture = Fixture::new();
    let output = fixture.call(json!([
        { "type": "audio", "data": STANDARD.encode(wav), "mimeType": "audio/../../x" },
        { "type": "resource", "resource": {
            "uri": "file:///../../etc/passwd", "mimeType": "text/csv", "blob": "YSxi" } },
    ]));
    let (path, mime, content) = saved(&output.blocks[0]);
    assert_eq!((mime, content.as_slice()), (Some("audio/x-wav"), &wav[..]));
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(name.starts_with("plugin+a++++b-") && name.ends_with(".wav"), "{name}");
    assert_eq!(path.parent(), Some(fixture.spill.folder.as_path()));
    let (path, mime, content) = saved(&output.blocks[1]);
    assert_eq!((mime, content.as_slice()), (Some("text/csv"), &b"a,b"[..]));
    assert_eq!(path.extension().and_then(|e| e.to_str()), Some("csv"));
    let ContentBlock::Saved { from_uri, .. } = &output.blocks[1] else { panic!("a file") };
    assert_eq!(from_uri.as_deref(), Some("file:///../../etc/passwd"));
}

#[test]
fn invalid_base64_is_saved_unchanged() {
    let fixture = Fixture::new();
    let output = fixture.call(json!([{ "type": "audio", "data": "not base64! ü" }]));
    assert_eq!(saved(&output.blocks[0]).2, "not base64! ü".as_bytes());
    assert_eq!(notes(&output), ["data is not valid base64 and was saved as it came"]);
}

#[test]
fn base64_with_line_breaks_and_without_padding_is_accepted() {
    let fixture = Fixture::new();
    let output = fixture.call(json!([{ "type": "audio", "data": "YWJj\r\nZGU" }]));
    assert_eq!(saved(&output.blocks[0]).2, b"abcde");
}

#[test]
fn content_that_cannot_be_saved_is_noted_and_the_rest_is_shown() {
    let fixture =
        Fixture::with(OutputLimits { spill_bytes: 2, characters: 3, ..OutputLimits::default() });
    let output = fixture.call(json!([
        { "type": "text", "text": "abcdef" },
        { "type": "audio", "data": "YWJj", "mimeType": "audio/wav" },
    ]));
    let unsaved = ContentBlock::NotSaved { mime: Some("audio/wav".to_owned()), from_uri: None };
    assert_eq!(output.blocks, [text("abc"), unsaved]);
    assert_eq!(output.full_text, None);
    assert_eq!(
        notes(&output),
        [
            "something could not be saved: the result exceeds its limit of bytes on disk",
            "the text is truncated: 3 of 6 characters are shown; the rest is lost",
            "something could not be saved: the result exceeds its limit of bytes on disk",
        ]
    );
    fs::write(fixture.home.path().join("file"), "").expect("a file");
    let spill = SpillStore { folder: fixture.home.path().join("file"), ..fixture.spill.clone() };
    let output =
        Fixture { spill, ..Fixture::new() }.call(json!([{ "type": "audio", "data": "YWJj" }]));
    assert!(matches!(&output.blocks[..], [ContentBlock::NotSaved { .. }]));
}

#[test]
fn a_resource_is_its_text_or_a_file() {
    let fixture = Fixture::new();
    let output = fixture.read(json!([
        { "uri": "a:1", "mimeType": "text/plain", "text": "hé" },
        { "uri": "a:2", "mimeType": "image/png", "blob": "iVBORw0KGgo=" },
        { "uri": "a:3" },
    ]));
    let inline = ContentBlock::Text { text: "hé".to_owned(), from_uri: Some("a:1".to_owned()) };
    assert_eq!(output.blocks[0], inline);
    assert_eq!(saved(&output.blocks[1]).1, Some("image/png"));
    let raw = Payload::from_json(r#"{"uri":"a:3"}"#.into());
    assert_eq!(output.blocks[2], ContentBlock::Unknown { kind: String::new(), raw });
}

#[test]
fn embedded_texts_links_and_unknown_blocks_are_unchanged() {
    let link = json!({ "type": "resource_link", "uri": "a:b", "name": "n\u{1b}", "size": 5 });
    let strange = json!({ "type": "hologram", "data": "AAAA", "x": [1.0] });
    let lame = json!({ "type": "image", "mimeType": "image/png" });
    let fixture = Fixture::new();
    let output = fixture.call(json!([
        { "type": "resource", "resource": { "uri": "a:1", "text": "inner" } },
        link, strange, lame, 5,
    ]));
    let raw = |value: &Value| Payload::encode(value).expect("JSON");
    assert_eq!(
        output.blocks,
        [
            ContentBlock::Text { text: "inner".to_owned(), from_uri: Some("a:1".to_owned()) },
            ContentBlock::Link {
                uri: "a:b".to_owned(),
                name: Some("n\u{1b}".to_owned()),
                mime: None,
                description: None,
                raw: raw(&link),
            },
            ContentBlock::Unknown { kind: "hologram".to_owned(), raw: raw(&strange) },
            ContentBlock::Unknown { kind: "image".to_owned(), raw: raw(&lame) },
            ContentBlock::Unknown { kind: String::new(), raw: raw(&json!(5)) },
        ]
    );
}

#[test]
fn structured_content_and_meta_are_byte_identical() {
    let fixture = Fixture::new();
    let output = fixture.raw(
        r#"{"isError": true, "structuredContent": {"b": 1.0,  "a":[ ]}, "_meta": { "x/y":1e2 },
            "content":[{"type":"text","text":"no\u0020luck"}]}"#,
    );
    let bytes = |payload: Option<Payload>| payload.map(|payload| payload.as_bytes().clone());
    assert_eq!(bytes(output.structured).as_deref(), Some(&br#"{"b": 1.0,  "a":[ ]}"#[..]));
    assert_eq!(bytes(output.meta).as_deref(), Some(&br#"{ "x/y":1e2 }"#[..]));
    assert_eq!((output.blocks, output.is_error), (vec![text("no luck")], true));
}

#[test]
fn structured_content_replaces_missing_content() {
    for content in ["", r#","content":[]"#] {
        let fixture = Fixture::new();
        let output = fixture.raw(&format!(r#"{{"structuredContent":{{"a":1}}{content}}}"#));
        assert_eq!(output.blocks, [text(r#"{"a":1}"#)]);
        let note = "the result has no content; its structured content is shown";
        assert_eq!(notes(&output), [note]);
    }
}

#[test]
fn a_result_of_unexpected_shape_is_passed_on_unchanged() {
    let listed = r#"[[{"type":"text","text":"x"}],null,{"a":1}]"#;
    for odd in
        ["null", "5", "[]", "{}", r#"{"content":"x"}"#, r#"{"toolResult":1}"#, "{\"a", listed]
    {
        let fixture = Fixture::new();
        let output = fixture.raw(odd);
        let raw = Payload::from_json(odd.to_owned().into());
        assert_eq!(output.blocks, [ContentBlock::Unknown { kind: String::new(), raw }], "{odd}");
        assert_eq!(notes(&output), ["the result does not match the protocol"]);
    }
}

#[test]
fn a_block_that_is_an_array_is_unknown() {
    let listed = r#"["text","by place"]"#;
    let output = Fixture::new().raw(&format!(r#"{{"content":[{listed}]}}"#));
    let raw = Payload::from_json(listed.to_owned().into());
    assert_eq!(output.blocks, [ContentBlock::Unknown { kind: String::new(), raw }]);
}

#[test]
fn a_long_text_is_truncated_between_characters_and_saved() {
    let fixture = Fixture::with(OutputLimits { characters: 7, ..OutputLimits::default() });
    let output = fixture.call(json!([
        { "type": "text", "text": "ü€\n😀" },
        { "type": "text", "text": "日本語です" },
        { "type": "text", "text": "nothing of this" },
        { "type": "resource_link", "uri": "a:b" },
    ]));
    assert_eq!(output.blocks[..2], [text("ü€\n😀"), text("日本語")]);
    assert!(matches!(&output.blocks[2..], [ContentBlock::Link { .. }]));
    let full = output.full_text.as_ref().expect("it is saved");
    let whole = "ü€\n😀\n日本語です\nnothing of this";
    assert_eq!(fs::read_to_string(&full.path).expect("a file"), whole);
    let id = &full.id;
    assert_eq!(
        notes(&output),
        [format!(
            "the text is truncated: 7 of 24 characters are shown; for the rest run `swb result {id} --lines 1-200`, or call the tool `ReadMcpResult` with that id"
        )]
    );
    let lines = LineRange {
        first: NonZeroU64::new(3).expect("a line"),
        last: NonZeroU64::new(3).expect("a line"),
    };
    assert_eq!(fixture.spill.page(id, lines).expect("a page").text, "日本語です\n");
}

#[test]
fn tokens_are_four_characters_and_the_tighter_limit_counts() {
    let most = |characters, tokens| {
        OutputLimits { characters, tokens: Some(tokens), ..OutputLimits::default() }
            .max_characters()
    };
    assert_eq!((most(100, 5), most(10, 5), most(10, usize::MAX)), (20, 10, 10));
    let fixture = Fixture::with(OutputLimits { tokens: Some(1), ..OutputLimits::default() });
    let output = fixture.call(json!([{ "type": "text", "text": "abcde" }]));
    assert_eq!(output.blocks, [text("abcd")]);
    let output = fixture.call(json!([{ "type": "text", "text": "abcd" }]));
    assert_eq!((output.blocks, output.full_text), (vec![text("abcd")], None));
}

#[test]
fn blocks_over_the_limit_are_omitted_and_the_response_is_saved() {
    let fixture = Fixture::with(OutputLimits { blocks: 2, ..OutputLimits::default() });
    let one = json!({ "type": "text", "text": "x" });
    let output = fixture.call(json!([one, one, one, one]));
    assert_eq!(output.blocks, [text("x"), text("x")]);
    let full = output.full_text.as_ref().expect("it is saved");
    assert_eq!(
        fs::read_to_string(&full.path).expect("a file"),
        json!({ "content": [one, one, one, one] }).to_string()
    );
    let id = &full.id;
    let note = format!(
        "2 content blocks are omitted; for the rest run `swb result {id} --lines 1-200`, or call the tool `ReadMcpResult` with that id"
    );
    assert_eq!(notes(&output), [note]);
}

fn any_block() -> impl Strategy<Value = Value> {
    let word = || {
        prop_oneof![
            Just(Value::Null),
            Just(json!(5)),
            ".{0,12}".prop_map(Value::from),
            "[A-Za-z0-9+/=]{0,40}".prop_map(Value::from),
        ]
    };
    let kind = prop::sample::select(vec!["text", "image", "audio", "resource", "resource_link"]);
    let member = prop::sample::select(vec![
        "text",
        "data",
        "blob",
        "mimeType",
        "uri",
        "name",
        "description",
        "resource",
        "type",
    ]);
    (kind, prop::collection::vec((member, word()), 0..6)).prop_map(|(kind, members)| {
        let mut block = json!({ "type": kind });
        for (name, value) in &members {
            block[name] = value.clone();
        }
        if kind == "resource" {
            block["resource"] = members.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
        }
        block
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_result_panics_or_exceeds_the_limits(
        blocks in prop::collection::vec(any_block(), 0..6),
        characters in 0usize..20,
    ) {
        let fixture = Fixture::with(OutputLimits { characters, ..OutputLimits::default() });
        let output = fixture.call(Value::from(blocks.clone()));
        let shown: usize = output.blocks.iter().map(|block| match block {
            ContentBlock::Text { text, .. } => text.chars().count(),
            ContentBlock::Image { .. } | ContentBlock::Saved { .. } | ContentBlock::NotSaved { .. }
            | ContentBlock::Link { .. } | ContentBlock::Unknown { .. } => 0,
        }).sum();
        prop_assert!(shown <= characters);
        let _whatever_it_is = fixture.read(Value::from(blocks));
    }

    #[test]
    fn no_bytes_panic(text in ".{0,60}", tail in "[\\[\\]{}\":,a-z0-9\\\\]{0,30}") {
        let _whatever_it_is = Fixture::new().raw(&text);
        let _whatever_it_is = Fixture::new().raw(&format!("{{\"content\":[{{\"type\":{tail}"));
    }

    #[test]
    fn no_corrupt_image_panics(
        format in prop::sample::select(vec![
            ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP,
        ]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(&DynamicImage::ImageRgb8(noise(24, 24)), format);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let end = end.index(bytes.len());
        let _whatever_it_is = Fixture::new().image(&bytes, "image/png");
        let _whatever_it_is = Fixture::new().image(&bytes[..end], "image/png");
    }
}
