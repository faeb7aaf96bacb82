//! The page's files: in the binary, or in a debug build read from the source tree whenever they are asked for.
//!
//! The page names its files below an address that has the hash of all of them, `ui/<version>/src/main.js`. What is there never changes, so a browser
//! keeps it and asks for nothing on the next visit but the page itself.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use rust_embed::{EmbeddedFile, RustEmbed};
use salon_protocol::Code;

use crate::auth::hex;
use crate::http::Problem;
use crate::ui::comments::without_comments;

const PNG: &str = "image/png";

/// What is served of `ui/`: not its tests, nor what they need.
#[derive(RustEmbed)]
#[folder = "../../ui"]
#[include = "index.html"]
#[include = "css/**"]
#[include = "img/**"]
#[include = "src/**"]
#[include = "vendor/**"]
#[exclude = "*.d.ts"]
#[exclude = "*.md"]
struct Files;

/// What a page of ours may do: load and call this origin, and nothing else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:; \
     connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

#[utoipa::path(get, path = "/", operation_id = "web_page", tag = "Web", summary = "The room in a browser",
    responses((status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 304, description = "As `If-None-Match` has it")))]
pub(crate) async fn page(headers: HeaderMap) -> Result<Response<Body>, Problem> {
    answer("index.html", Freshness::Revalidated, &headers)
}

#[utoipa::path(get, path = "/ui/{path}", operation_id = "web_asset", tag = "Web", summary = "What the page consists of",
    params(("path" = String, Path, description = "The file")),
    responses((status = 200, description = "The file", content_type = "*/*", body = String),
        (status = 304, description = "As `If-None-Match` has it"),
        (status = 404, description = "There is no such file", body = crate::http::ProblemBody)))]
pub(crate) async fn asset(
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let Path(path) = path.map_err(|_| missing())?;
    let (path, freshness) = match path.split_once('/') {
        Some((version, rest)) if version == current_version() => (rest, Freshness::Forever),
        // Of a page that another version of the gateway has served. A mixed page beats none until it is loaded again.
        Some((version, rest)) if is_version(version) => (rest, Freshness::Revalidated),
        _ => (path.as_str(), Freshness::Revalidated),
    };
    if path == "index.html" { Err(missing()) } else { answer(path, freshness, &headers) }
}

/// How long a browser may use its copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freshness {
    /// It asks every time whether there is another: a new version of the gateway is a new page.
    Revalidated,
    /// The address has the version.
    Forever,
}

impl Freshness {
    fn cache_control(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Revalidated => "no-cache",
            Self::Forever => "public, max-age=31536000, immutable",
        })
    }
}

const VERSION_DIGITS: usize = 16;

fn is_version(text: &str) -> bool {
    text.len() == VERSION_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
}

/// The hash of every file, as the page names it that was served last.
static VERSION: LazyLock<Mutex<String>> = LazyLock::new(|| Mutex::new(version()));

fn current_version() -> String {
    VERSION.lock().clone()
}

fn version() -> String {
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    let mut names: Vec<_> = Files::iter().collect();
    names.sort_unstable();
    for name in names {
        hash.update(name.as_bytes());
        hash.update(&Files::get(&name).map_or([0; 32], |file| file.metadata.sha256_hash()));
    }
    hex(&hash.finish().as_ref()[..VERSION_DIGITS / 2])
}

/// The page with the version in its addresses. A debug build looks at the files again, so that a reload shows a change.
fn versioned(page: &[u8]) -> Vec<u8> {
    if cfg!(debug_assertions) {
        *VERSION.lock() = version();
    }
    let page = String::from_utf8_lossy(page);
    page.replace("=\"ui/", &format!("=\"ui/{}/", current_version())).into_bytes()
}

fn missing() -> Problem {
    Problem::new(Code::NotFound, "there is nothing at this address")
}

fn answer(path: &str, freshness: Freshness, asked: &HeaderMap) -> Result<Response<Body>, Problem> {
    let kind = media_type(path).ok_or_else(missing)?;
    let EmbeddedFile { data, metadata } = Files::get(path).ok_or_else(missing)?;
    let (data, hash) = if path == "index.html" {
        let page = versioned(&data);
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &page);
        (page.into(), hash.as_ref().try_into().expect("256 bits"))
    } else {
        (data, metadata.sha256_hash())
    };
    let packed = kind != PNG && takes_gzip(asked);
    // What is packed is another representation, and has another tag.
    let tag = format!("\"{}{}\"", hex(&hash[..16]), if packed { "-gzip" } else { "" });
    let known = is_known(asked, &tag);
    let body = || if packed { Body::from(packed_once(path, hash, &data)) } else { Body::from(data) };
    let mut response = Response::new(if known { Body::empty() } else { body() });
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    if packed && !known {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let fixed = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::ETAG, HeaderValue::try_from(tag).expect("hexadecimal digits between quotes")),
        (header::CACHE_CONTROL, freshness.cache_control()),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    ];
    response.headers_mut().extend(fixed);
    if is_document(kind) {
        let more = [
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (header::HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
        ];
        response.headers_mut().extend(more);
    }
    Ok(response)
}

/// Whether a browser would show it in a window of its own: only there do policies mean anything. Sixty scripts without them are lighter.
fn is_document(kind: &str) -> bool {
    kind.starts_with("text/html") || kind.starts_with("image/svg")
}

/// Whether the client can unpack.
fn takes_gzip(asked: &HeaderMap) -> bool {
    let listed = asked.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    listed.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight.trim().strip_prefix("q=").is_some_and(|weight| weight.trim_matches(['0', '.']).is_empty());
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// A file, packed and without comments. That is done once for each; what is kept is bounded by how many files there are.
fn packed_once(path: &str, version: [u8; 32], data: &[u8]) -> Bytes {
    static PACKED: Mutex<BTreeMap<String, ([u8; 32], Bytes)>> = Mutex::new(BTreeMap::new());
    let mut kept = PACKED.lock();
    if let Some((of, bytes)) = kept.get(path)
        && *of == version
    {
        return bytes.clone();
    }
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    let packed = packer.write_all(&without_comments(path, data)).and_then(|()| packer.finish());
    let bytes = Bytes::from(packed.expect("writing to memory does not fail"));
    kept.insert(path.to_owned(), (version, bytes.clone()));
    bytes
}

/// What a path says the file is; `None` for a path that no file of ours has.
fn media_type(path: &str) -> Option<&'static str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && name.chars().all(plain);
    if !path.split('/').all(is_name) {
        return None;
    }
    match path.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        "png" => Some(PNG),
        "txt" | "LICENSE" => Some("text/plain; charset=utf-8"),
        _ => None,
    }
}

/// Whether the client has this version already.
fn is_known(asked: &HeaderMap, tag: &str) -> bool {
    let listed = asked.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    let mut listed = listed.flat_map(|value| value.split(',')).map(str::trim);
    listed.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_can_unpack_says_so() {
        let takes = |said: &'static str| {
            takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(said))]))
        };
        assert!(takes("gzip") && takes("br, GZIP;q=0.5") && takes("deflate , gzip ; q=1"));
        assert!(!takes("") && !takes("br") && !takes("gzip;q=0") && !takes("gzip; q=0.00") && !takes("x-gzip-not"));
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn what_is_packed_is_what_was_written() {
        use std::io::Read;
        for (version, text) in [([1; 32], "one"), ([1; 32], "one"), ([2; 32], "two")] {
            let packed = packed_once("a.js", version, text.as_bytes());
            let mut read = String::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut read).expect("packed well");
            assert_eq!(read, text);
        }
    }

    #[test]
    fn only_files_of_the_page_have_a_type() {
        let found = |path| media_type(path).is_some();
        assert!(found("src/view/roster.js") && found("vendor/htm.LICENSE"));
        for wrong in [
            "",
            "/",
            "src",
            "src/",
            "/src/a.js",
            "src//a.js",
            "../a.js",
            "src/../a.js",
            "src/.a.js",
            ".js",
            "a\\b.js",
            "a b.js",
            "src/a.toml",
        ] {
            assert!(!found(wrong), "{wrong}");
        }
    }

    #[test]
    fn the_page_names_its_files_by_their_version() {
        let page = versioned(br#"<link href="ui/css/base.css"><script src="ui/src/main.js"></script>"#);
        let version = current_version();
        assert!(is_version(&version), "{version}");
        let expected =
            format!(r#"<link href="ui/{version}/css/base.css"><script src="ui/{version}/src/main.js"></script>"#);
        assert_eq!(String::from_utf8(page).expect("text"), expected);
        assert!(!is_version("src") && !is_version("0123456789ABCDEF") && !is_version("0123456789abcde"));
    }

    #[test]
    fn tests_and_what_they_need_are_not_served() {
        let names: Vec<_> = Files::iter().collect();
        assert!(names.iter().any(|name| name == "index.html"), "{names:?}");
        let served = |name: &str| ["css/", "img/", "src/", "vendor/"].iter().any(|folder| name.starts_with(folder));
        for name in names.iter().filter(|name| *name != "index.html") {
            assert!(served(name), "{name}");
            assert!(media_type(name).is_some(), "{name} is in the binary and cannot be had");
        }
    }
}
