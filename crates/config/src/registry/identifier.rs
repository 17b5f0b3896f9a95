//! Which texts of a registry are names, package identifiers and pinned versions. Nothing that passes is a flag, a path, a
//! URL or a range.

use super::package_type::PackageType;

/// The maximum length of identifiers and versions.
const MAX_LENGTH: usize = 255;

/// Whether a text is the name of a server in a registry: a namespace, a slash and a name.
pub fn is_server_name(text: &str) -> bool {
    let is_namespace = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let is_name = |c: char| is_namespace(c) || c == '_';
    (3..=200).contains(&text.len())
        && text.split_once('/').is_some_and(|(namespace, name)| {
            !namespace.is_empty()
                && !name.is_empty()
                && namespace.chars().all(is_namespace)
                && name.chars().all(is_name)
        })
}

pub(super) fn is_environment_name(text: &str) -> bool {
    text.len() <= MAX_LENGTH
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

pub(super) fn is_header_name(text: &str) -> bool {
    (1..=MAX_LENGTH).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

/// Whether a text names one package of this type, and neither a file, a URL nor an option.
pub(super) fn is_identifier(text: &str, of: PackageType) -> bool {
    let is_word = |text: &str, more: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let is_short = (1..=MAX_LENGTH).contains(&text.len());
    is_short
        && match of {
            PackageType::Npm => match text.strip_prefix('@') {
                Some(scoped) => scoped
                    .split_once('/')
                    .is_some_and(|(scope, name)| is_word(scope, "-_.~") && is_word(name, "-_.~")),
                None => is_word(text, "-_.~"),
            },
            PackageType::Pypi | PackageType::Nuget => is_word(text, "-_."),
            PackageType::Cargo => is_word(text, "-_"),
            PackageType::Oci => is_word(text, "-_./:@"),
            PackageType::Mcpb => url::Url::parse(text).is_ok_and(|it| it.has_host()),
        }
}

/// Whether a text names exactly one version: no range, no tag that moves.
pub fn is_pinned_version(text: &str) -> bool {
    let digits = text.strip_prefix(['v', 'V']).unwrap_or(text);
    text.len() <= MAX_LENGTH
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_' | '!'))
        && !text.split(['.', '-']).any(|part| part.eq_ignore_ascii_case("x"))
}

/// Whether an image has a digest, or a tag that names a version.
pub(super) fn is_pinned_image(image: &str) -> bool {
    if let Some((_, digest)) = image.split_once('@') {
        return digest.strip_prefix("sha256:").is_some_and(is_sha256);
    }
    image_tag(image).is_some_and(|tag| tag.contains(|c: char| c.is_ascii_digit()))
}

/// The tag of an image. A colon before the last slash belongs to the port of the image's host.
pub(super) fn image_tag(image: &str) -> Option<&str> {
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').map(|(_, tag)| tag)
}

/// Whether a text is a SHA-256 in hexadecimal digits.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_version_is_neither_a_range_nor_a_tag() {
        for good in ["1.2.3", "v1.0.0", "2026.8.31", "1.0.0-beta.2+build", "1!2.0", "0"] {
            assert!(is_pinned_version(good), "{good}");
        }
        for bad in [
            "latest",
            "Latest",
            "next",
            "^1.2.3",
            "~1.2",
            ">=1",
            "1.x",
            "1.2.X",
            "*",
            "1 || 2",
            "1 - 2",
            "",
            "--help",
            "1.2.3;rm",
            "1.0.0\u{1b}",
            "file:x",
        ] {
            assert!(!is_pinned_version(bad), "{bad}");
        }
    }

    #[test]
    fn an_identifier_is_never_a_flag_a_path_or_a_url() {
        for (of, good) in [
            (PackageType::Npm, "@scope/server-x"),
            (PackageType::Npm, "server.x"),
            (PackageType::Pypi, "mcp-server-time"),
            (PackageType::Oci, "registry.example:5000/acme/tool:1.2"),
            (PackageType::Nuget, "Acme.Tool"),
            (PackageType::Cargo, "acme-tool"),
            (PackageType::Mcpb, "https://files.example/a.mcpb"),
        ] {
            assert!(is_identifier(good, of), "{good}");
        }
        for bad in [
            "",
            "--privileged",
            "-y",
            "a b",
            "../x",
            "/bin/sh",
            "a;b",
            "$(id)",
            "`id`",
            "a\nb",
            "a\u{202e}b",
            "git+ssh://h/x",
            "file:../x",
            "@/x",
            "@x/",
            "https://h.example/x.tgz",
        ] {
            for of in [PackageType::Npm, PackageType::Pypi, PackageType::Nuget, PackageType::Cargo]
            {
                assert!(!is_identifier(bad, of), "{bad} {of:?}");
            }
        }
        for bad in ["-v", "a b", "/x", "a$b"] {
            assert!(!is_identifier(bad, PackageType::Oci), "{bad}");
        }
        assert!(!is_identifier("file:///etc/passwd", PackageType::Mcpb));
    }

    #[test]
    fn an_image_is_pinned_by_a_digest_or_a_version() {
        let digest = format!("acme/tool@sha256:{}", "a".repeat(64));
        for (image, is_pinned) in [
            (digest.as_str(), true),
            ("acme/tool:1.2.3", true),
            ("host.example:5000/tool:1", true),
            ("acme/tool", false),
            ("host.example:5000/tool", false),
            ("acme/tool:latest", false),
            ("acme/tool@sha256:abc", false),
        ] {
            assert_eq!(is_pinned_image(image), is_pinned, "{image}");
        }
    }

    #[test]
    fn a_server_name_has_a_namespace_and_a_name() {
        for good in ["io.github.user/weather", "a/b", "com.example/x_y.z"] {
            assert!(is_server_name(good), "{good}");
        }
        for bad in ["weather", "/x", "a/", "a/b/c", "a_b/c", "a b/c", "../x y", "a/\u{1b}[2J", ""] {
            assert!(!is_server_name(bad), "{bad}");
        }
    }
}
