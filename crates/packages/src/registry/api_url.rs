//! The URLs of a registry's API. Names from outside become one path segment each, so that no name leads to another path.

use thiserror::Error;
use url::{Host, Url};

/// The versions of the API, in the order in which they are tried. Their responses have the same shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVersion {
    /// The current one.
    V0_1,
    /// The one before.
    V0,
}

impl ApiVersion {
    /// Every version, the newest first.
    pub const ALL: [ApiVersion; 2] = [ApiVersion::V0_1, ApiVersion::V0];

    fn segment(self) -> &'static str {
        match self {
            ApiVersion::V0_1 => "v0.1",
            ApiVersion::V0 => "v0",
        }
    }
}

/// Why a text is not the base URL of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RegistryUrlError {
    /// It is not a URL.
    #[error("it is not a URL")]
    Malformed,
    /// It is not encrypted, or not on the web.
    #[error("it must be https, or a URL of this machine")]
    Scheme,
    /// It has a user, a query or a fragment.
    #[error("it must not have a user name, a query or a fragment")]
    Extra,
}

/// The base URL of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryUrl {
    base: Url,
}

impl RegistryUrl {
    /// Parses a base URL. A version of the API at its end is removed.
    pub fn parse(text: &str) -> Result<RegistryUrl, RegistryUrlError> {
        let mut base = Url::parse(text.trim()).map_err(|_| RegistryUrlError::Malformed)?;
        let is_loopback = match base.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => return Err(RegistryUrlError::Malformed),
        };
        match base.scheme() {
            "https" => {}
            "http" if is_loopback => {}
            _ => return Err(RegistryUrlError::Scheme),
        }
        let has_user = !base.username().is_empty() || base.password().is_some();
        if has_user || base.query().is_some() || base.fragment().is_some() {
            return Err(RegistryUrlError::Extra);
        }
        if let Ok(mut segments) = base.path_segments_mut() {
            segments.pop_if_empty();
        }
        for version in ApiVersion::ALL {
            let ending = format!("/{}", version.segment());
            if let Some(path) = base.path().strip_suffix(ending.as_str()).map(str::to_owned) {
                base.set_path(&path);
            }
        }
        Ok(RegistryUrl { base })
    }

    /// The URL.
    pub fn as_url(&self) -> &Url {
        &self.base
    }

    /// The URL of a path of the API.
    pub(super) fn endpoint(
        &self,
        version: ApiVersion,
        segments: &[&str],
        query: &[(&str, &str)],
    ) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push(version.segment()).extend(segments);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, RegistryUrlError>) {
        let parsed = RegistryUrl::parse(text);
        let segments = ["servers", "io.github.user/weather"];
        let url = parsed.map(|it| it.endpoint(ApiVersion::V0_1, &segments, &[("search", "a b&c")]));
        assert_eq!(url.as_ref().map(Url::as_str), expected.as_ref().copied(), "{text}");
    }

    #[test]
    fn a_name_is_one_segment_below_the_base() {
        let rest = "v0.1/servers/io.github.user%2Fweather?search=a+b%26c";
        let root = format!("https://r.example/{rest}");
        for text in [
            "https://r.example",
            "https://r.example/",
            "https://r.example/v0.1",
            "https://r.example/v0/",
            " https://r.example/v0.1/ ",
        ] {
            check(text, Ok(&root));
        }
        check("https://r.example/mcp/", Ok(&format!("https://r.example/mcp/{rest}")));
        check("http://127.0.0.1:1/", Ok(&format!("http://127.0.0.1:1/{rest}")));
    }

    #[test]
    fn only_https_and_this_machine_are_accepted() {
        check("http://r.example/", Err(RegistryUrlError::Scheme));
        check("file:///x", Err(RegistryUrlError::Malformed));
        check("ftp://r.example/", Err(RegistryUrlError::Scheme));
        check("r.example", Err(RegistryUrlError::Malformed));
        check("https://u:p@r.example/", Err(RegistryUrlError::Extra));
        check("https://r.example/?a=b", Err(RegistryUrlError::Extra));
        check("https://r.example/#a", Err(RegistryUrlError::Extra));
    }
}
