//! The size of a page, and what it is told about its surroundings.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::actions::page::Page;
use crate::error::{BrowserError, Result};

/// The smallest and the largest side of a page, in CSS pixels.
const SIDES: std::ops::RangeInclusive<u32> = 100..=4000;

/// What a page is told about its surroundings.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Emulation {
    pub(crate) tab: Option<u32>,
    /// dark, light or none.
    pub(crate) color_scheme: Option<String>,
    pub(crate) reduced_motion: Option<bool>,
    /// screen or print.
    pub(crate) media: Option<String>,
    /// Such as Europe/Paris.
    pub(crate) timezone: Option<String>,
    /// Such as fr-FR.
    pub(crate) locale: Option<String>,
    /// [latitude, longitude]
    pub(crate) location: Option<[f64; 2]>,
    pub(crate) offline: Option<bool>,
    pub(crate) user_agent: Option<String>,
}

impl Page {
    /// Sets the size of the page.
    pub(crate) async fn resize(&self, width: u32, height: u32, is_mobile: bool) -> Result<()> {
        for (name, side) in [("width", width), ("height", height)] {
            if !SIDES.contains(&side) {
                let expected = format!("from {} to {}", SIDES.start(), SIDES.end());
                return Err(BrowserError::Argument { name, expected });
            }
        }
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_mobile,
        });
        self.call("Emulation.setDeviceMetricsOverride", params).await?;
        let touch = json!({"enabled": is_mobile});
        self.call("Emulation.setTouchEmulationEnabled", touch).await?;
        self.with(|it| it.picture_scale = 1.0)
    }

    /// Sets what the page is told about its surroundings; returns what was set.
    pub(crate) async fn emulate(&self, emulation: &Emulation) -> Result<Vec<&'static str>> {
        let mut done = Vec::new();
        let mut features = Vec::new();
        if let Some(scheme) = &emulation.color_scheme {
            let value = if scheme == "none" { "" } else { scheme.as_str() };
            if !["", "dark", "light"].contains(&value) {
                let expected = "dark, light or none".to_owned();
                return Err(BrowserError::Argument { name: "color_scheme", expected });
            }
            features.push(json!({"name": "prefers-color-scheme", "value": value}));
            done.push("colour scheme");
        }
        if let Some(reduced) = emulation.reduced_motion {
            let value = if reduced { "reduce" } else { "" };
            features.push(json!({"name": "prefers-reduced-motion", "value": value}));
            done.push("motion");
        }
        if !features.is_empty() || emulation.media.is_some() {
            let media = emulation.media.as_deref().map(|it| if it == "screen" { "" } else { it });
            if media.is_some_and(|it| !it.is_empty() && it != "print") {
                let expected = "screen or print".to_owned();
                return Err(BrowserError::Argument { name: "media", expected });
            }
            let params = json!({"media": media.unwrap_or_default(), "features": features});
            self.call("Emulation.setEmulatedMedia", params).await?;
            if emulation.media.is_some() {
                done.push("media");
            }
        }
        let settings: [(&str, &'static str, Option<Json>); 4] = [
            (
                "timezone",
                "Emulation.setTimezoneOverride",
                emulation.timezone.as_ref().map(|it| json!({"timezoneId": it})),
            ),
            (
                "locale",
                "Emulation.setLocaleOverride",
                emulation.locale.as_ref().map(|it| json!({"locale": it.replace('-', "_")})),
            ),
            (
                "location",
                "Emulation.setGeolocationOverride",
                emulation.location.map(|[latitude, longitude]| {
                    json!({"latitude": latitude, "longitude": longitude, "accuracy": 1})
                }),
            ),
            (
                "user agent",
                "Emulation.setUserAgentOverride",
                emulation.user_agent.as_ref().map(|it| json!({"userAgent": it})),
            ),
        ];
        for (name, method, params) in settings {
            let Some(params) = params else { continue };
            self.call(method, params).await?;
            done.push(name);
        }
        if emulation.location.is_some() {
            let mut params = json!({"permissions": ["geolocation"]});
            if let Some(id) = &self.context.id {
                params["browserContextId"] = json!(id);
            }
            self.browser.cdp.call(None, "Browser.grantPermissions", params).await?;
        }
        if let Some(offline) = emulation.offline {
            let params = json!({"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
            self.call("Network.emulateNetworkConditions", params).await?;
            done.push(if offline { "offline" } else { "online" });
        }
        Ok(done)
    }
}
