//! The style sheet, the script and the pictures of the dashboard. They are parts of the program.

pub(crate) const STYLE_PATH: &str = "/ui/assets/dashboard.css";
pub(crate) const SCRIPT_PATH: &str = "/ui/assets/dashboard.js";

const STYLE: &str = include_str!("assets/dashboard.css");
const SCRIPT: &str = include_str!("assets/dashboard.js");

/// The icon of the pages.
pub(crate) const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E\
    %3Crect width='24' height='24' rx='6' fill='%230f766e'/%3E%3Cpath d='M6 8h5l3 8h4M6 16h5l.8-2M13.2 10 14 8h4' \
    fill='none' stroke='white' stroke-width='2' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";
/// The same, for the head of the navigation.
pub(crate) const LOGO: &str = "<svg class=\"logo\" viewBox=\"0 0 24 24\" width=\"24\" height=\"24\" aria-hidden=\"true\">\
    <rect width=\"24\" height=\"24\" rx=\"6\"/><path d=\"M6 8h5l3 8h4M6 16h5l.8-2M13.2 10 14 8h4\"/></svg>";

/// The text and the content type of an asset.
pub(crate) fn find(path: &str) -> Option<(&'static str, &'static str)> {
    match path {
        STYLE_PATH => Some((STYLE, "text/css; charset=utf-8")),
        SCRIPT_PATH => Some((SCRIPT, "text/javascript; charset=utf-8")),
        _ => None,
    }
}
