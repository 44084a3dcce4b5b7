//! The page: a few files inside the program, no build step, nothing from elsewhere (DEC-16).

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;

use super::chat::Playground;
use super::routes::PATH;

const HTML: &str = include_str!("page/index.html");
const LOCKED: &str = include_str!("page/locked.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/app.js");
const LINES: &str = include_str!("page/lines.js");
const ICON: &str = include_str!("page/icon.svg");

/// No script and no style but our own files, no other address, no frame around it: a text that got past the escaping
/// could neither run nor send anything.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What may stand behind the address.
#[derive(Deserialize)]
pub(super) struct Asked {
    key: Option<String>,
}

/// The page for a browser that has shown the key. One that brings it in the address gets it as a cookie and the address
/// without it; any other is told where to find it.
pub(super) async fn html(
    request: HttpRequest,
    asked: web::Query<Asked>,
    playground: web::Data<Playground>,
) -> HttpResponse {
    let key = playground.key();
    if asked.key.as_ref().is_some_and(|given| key.is(given)) {
        return HttpResponse::SeeOther()
            .insert_header((LOCATION, PATH))
            .insert_header((SET_COOKIE, key.cookie()))
            .insert_header((CACHE_CONTROL, "no-store"))
            .finish();
    }
    file("text/html; charset=utf-8", if key.is_in(request.headers()) { HTML } else { LOCKED })
}

pub(super) async fn style() -> HttpResponse {
    file("text/css; charset=utf-8", STYLE)
}

pub(super) async fn script() -> HttpResponse {
    file("text/javascript; charset=utf-8", SCRIPT)
}

pub(super) async fn lines() -> HttpResponse {
    file("text/javascript; charset=utf-8", LINES)
}

pub(super) async fn icon() -> HttpResponse {
    file("image/svg+xml", ICON)
}

/// Not kept by the browser: the next start may be another version.
fn file(kind: &'static str, content: &'static str) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, kind))
        .insert_header((CACHE_CONTROL, "no-store"))
        .body(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DEC-16: what the policy forbids is not in the page, and texts get there as text only.
    #[test]
    fn the_page_needs_nothing_that_its_policy_forbids() {
        assert!(!POLICY.contains("unsafe") && !POLICY.contains("http"));
        for inline in ["<style", "style=", "onclick", "onload", "javascript:", "//cdn", "https://", "<iframe"]
        {
            assert!(!HTML.contains(inline) && !LOCKED.contains(inline), "{inline} in the page");
        }
        assert_eq!(HTML.matches("<script").count(), 2);
        for script in ["lines.js", "app.js"] {
            assert!(HTML.contains(&format!(r#"<script src="/playground/{script}" defer></script>"#)));
        }
        for sink in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(!SCRIPT.contains(sink) && !LINES.contains(sink), "{sink} in a script");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
