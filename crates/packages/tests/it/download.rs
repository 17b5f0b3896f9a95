//! Downloads: redirects, limits, and what is computed about the file.

use std::fs;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use switchboard_auth::fetch::origin_guard::OriginGuard;
use switchboard_auth::fetch::{DownloadError, DownloadLimits, FetchRequest, HttpFetcher};
use switchboard_packages::download::{DownloadedFile, download_file};
use switchboard_wire::http::client::{HttpClient, HttpSettings, ProxySettings};
use tokio::net::TcpListener;
use url::Url;

/// The SHA-256 of `good`.
const GOOD: &str = "770e607624d689265ca6c44884d0807d9b054d23c473c106c72be9de08b7376c";

/// A file host on 127.0.0.1 that redirects to its own other paths, to another port and to places that are refused.
async fn file_host() -> Url {
    let storage = serve(Router::new().fallback(|request: Request| async move {
        assert!(request.headers().get("authorization").is_none(), "headers stay at their origin");
        "good"
    }))
    .await;
    let router = Router::new().fallback(move |request: Request| {
        let storage = storage.clone();
        async move {
            let to = |location: &str| {
                let response = Response::builder().status(302).header("location", location);
                response.body(Body::empty()).expect("a response")
            };
            match request.uri().path() {
                "/good" => Response::new(Body::from("good")),
                "/storage" => to(&format!("{storage}good")),
                "/metadata" => to("http://169.254.169.254/latest"),
                "/file" => to("file:///etc/passwd"),
                "/loop" => to("/loop"),
                "/large" => Response::new(Body::from(vec![b'x'; 100_000])),
                _ => Response::builder().status(404).body(Body::empty()).expect("a response"),
            }
        }
    });
    serve(router).await
}

/// Serves at a free port until the runtime of the test ends.
async fn serve(router: Router) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    Url::parse(&format!("http://{address}")).expect("a URL")
}

fn fetcher() -> HttpFetcher {
    let settings = HttpSettings {
        user_agent: "test".to_owned(),
        proxies: ProxySettings::default(),
        extra_ca: Vec::new(),
        identity: None,
        connect_timeout: Duration::from_secs(5),
    };
    HttpFetcher::new(HttpClient::new(&settings).expect("a client"))
}

async fn download(path: &str) -> Result<DownloadedFile, DownloadError> {
    let host = file_host().await;
    let guard = OriginGuard::new(&host, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let from = guard.check_url(host.join(path).expect("a URL")).expect("an allowed URL");
    let result = download_file(&fetcher(), from, &guard, folder.path()).await;
    if result.is_err() {
        let left = fs::read_dir(folder.path()).expect("the folder").count();
        assert_eq!(left, 0, "a failed download leaves no file");
    }
    result
}

#[tokio::test]
async fn a_downloaded_file_has_its_digest_and_size() {
    let file = download("/good").await.expect("a file");
    assert_eq!((file.sha256.as_str(), file.size), (GOOD, 4));
}

#[tokio::test]
async fn a_redirect_to_a_storage_service_is_followed_without_headers() {
    let host = file_host().await;
    let guard = OriginGuard::new(&host, &[]);
    let from = guard.check_url(host.join("/storage").expect("a URL")).expect("an allowed URL");
    let request =
        FetchRequest::get(from).with_secret_header(http::header::AUTHORIZATION, "Bearer canary");
    let limits = DownloadLimits { size: 100, timeout: Duration::from_secs(30) };
    let mut body = Vec::new();
    let fetcher = fetcher();
    let mut write = |piece: &[u8]| {
        body.extend_from_slice(piece);
        Ok(())
    };
    let last = fetcher.download(request, &guard, limits, &mut write).await.expect("a file");
    assert_ne!(last.url.port(), host.port());
    assert_eq!(body, b"good");
}

#[tokio::test]
async fn redirects_to_refused_places_and_errors_end_a_download() {
    for path in ["/metadata", "/file"] {
        let error = download(path).await.expect_err("it is refused");
        assert!(matches!(error, DownloadError::Redirect { .. }), "{path}: {error}");
    }
    let error = download("/loop").await.expect_err("it never ends");
    assert!(matches!(error, DownloadError::Fetch(_)), "{error}");
    let error = download("/absent").await.expect_err("there is no file");
    assert!(matches!(error, DownloadError::Status { status: 404, .. }), "{error}");
}

#[tokio::test]
async fn a_download_ends_at_its_limit() {
    let host = file_host().await;
    let guard = OriginGuard::new(&host, &[]);
    let from = guard.check_url(host.join("/large").expect("a URL")).expect("an allowed URL");
    let limits = DownloadLimits { size: 99_999, timeout: Duration::from_secs(30) };
    let fetcher = fetcher();
    let result = fetcher.download(FetchRequest::get(from), &guard, limits, &mut |_| Ok(())).await;
    let error = result.expect_err("it is too large");
    assert!(matches!(error, DownloadError::TooLarge { limit: 99_999, .. }), "{error}");
}
