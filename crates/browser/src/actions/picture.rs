//! Pictures of pages, no larger than models take in.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

use crate::actions::page::Page;
use crate::actions::pointer::ElementState;
use crate::actions::world::{ElementRef, decode};
use crate::error::{BrowserError, Result};

/// The longest side of a picture, in pixels.
const MAX_SIDE: f64 = 1568.0;
/// The tallest part of a page in one picture, in CSS pixels.
const MAX_PAGE_HEIGHT: f64 = 8000.0;
/// The largest picture, in bytes.
const MAX_BYTES: usize = 3_500_000;
const PICTURE_LIMIT: Duration = Duration::from_secs(20);

/// The format of a picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PictureFormat {
    #[default]
    Jpeg,
    Webp,
    Png,
}

impl PictureFormat {
    fn id(self) -> &'static str {
        match self {
            PictureFormat::Jpeg => "jpeg",
            PictureFormat::Webp => "webp",
            PictureFormat::Png => "png",
        }
    }

    pub(crate) fn mime_type(self) -> &'static str {
        match self {
            PictureFormat::Jpeg => "image/jpeg",
            PictureFormat::Webp => "image/webp",
            PictureFormat::Png => "image/png",
        }
    }
}

/// What is in a picture.
#[derive(Debug, Clone)]
pub(crate) enum PictureArea {
    /// What a window would show.
    Viewport,
    /// The whole page.
    Page,
    Element(ElementRef),
}

/// A picture.
pub(crate) struct Picture {
    pub(crate) bytes: Vec<u8>,
    pub(crate) format: PictureFormat,
    /// What it shows.
    pub(crate) description: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    width: f64,
    height: f64,
    full_width: f64,
    full_height: f64,
    x: f64,
    y: f64,
    /// Pixels of the screen for one of the page.
    ratio: f64,
}

#[derive(Deserialize)]
struct ScreenshotResponse {
    data: String,
}

impl Page {
    /// Takes a picture.
    pub(crate) async fn picture(
        &self,
        area: &PictureArea,
        format: PictureFormat,
        scale: f64,
    ) -> Result<Picture> {
        let info: PageInfo = self.run(&self.target, "pageInfo", &json!([])).await?;
        let (x, y, width, height, mut notes) = match area {
            PictureArea::Viewport => (info.x, info.y, info.width, info.height, String::new()),
            PictureArea::Page => {
                let height = info.full_height.min(MAX_PAGE_HEIGHT);
                let cut = if height < info.full_height {
                    format!("; only the first {height} of {} px", info.full_height)
                } else {
                    String::new()
                };
                (0.0, 0.0, info.full_width.min(MAX_PAGE_HEIGHT), height, cut)
            }
            PictureArea::Element(element) => {
                let place: ElementState =
                    self.run(&element.frame, "boxFor", &json!([element.number])).await?;
                let place = place.check(element)?;
                let at = (place.x, place.y);
                let frame = self.place_on_page(&element.frame, at).await?;
                // The element may have been scrolled into view just now.
                let now: PageInfo = self.run(&self.target, "pageInfo", &json!([])).await?;
                let (x, y) = (frame.x + now.x, frame.y + now.y);
                let (width, height) = (place.width.min(4000.0), place.height.min(4000.0));
                (x.max(0.0), y.max(0.0), width, height, String::new())
            }
        };
        let (width, height) = (width.max(1.0), height.max(1.0));
        let factor = scale.min(MAX_SIDE / width).min(MAX_SIDE / height).min(1.0);
        let is_viewport = matches!(area, PictureArea::Viewport);
        let mut params = json!({
            "format": format.id(),
            "captureBeyondViewport": !is_viewport,
            "optimizeForSpeed": format == PictureFormat::Png,
        });
        if format != PictureFormat::Png {
            params["quality"] = json!(80);
        }
        // The browser multiplies by the ratio of the screen, which neither models nor coordinates know.
        let ratio = if info.ratio.is_finite() && info.ratio > 0.0 { info.ratio } else { 1.0 };
        let clip_scale = factor / ratio;
        if !is_viewport || clip_scale != 1.0 {
            params["clip"] =
                json!({"x": x, "y": y, "width": width, "height": height, "scale": clip_scale});
        }
        let method = "Page.captureScreenshot";
        let captured = self.call_page(&self.session, method, params, PICTURE_LIMIT).await?;
        let captured = captured.ok_or_else(|| self.open_dialog_error())?;
        let captured: ScreenshotResponse = decode(method, &captured)?;
        let unreadable = || BrowserError::Load("the picture was not understood".to_owned());
        let bytes = STANDARD.decode(captured.data).map_err(|_| unreadable())?;
        if bytes.len() > MAX_BYTES {
            let text = "the picture is too large; use jpeg, a smaller scale, or a ref".to_owned();
            return Err(BrowserError::Load(text));
        }
        if is_viewport {
            self.with(|it| it.picture_scale = 1.0 / factor)?;
        } else {
            notes += "; coordinates of click belong to pictures of the viewport only";
        }
        let (shown_width, shown_height) = ((width * factor).round(), (height * factor).round());
        let what = match area {
            PictureArea::Viewport => "viewport",
            PictureArea::Page => "page",
            PictureArea::Element(_) => "element",
        };
        let scaled = if factor < 1.0 { format!(", scaled by {factor:.2}") } else { String::new() };
        let description =
            format!("{what} of tab {}: {shown_width}x{shown_height}{scaled}{notes}", self.tab);
        Ok(Picture { bytes, format, description })
    }
}
