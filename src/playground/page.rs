//! The page: four files inside the program, no build step, nothing from elsewhere (DEC-16).

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};

const HTML: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/app.js");
const LINES: &str = include_str!("page/lines.js");
const ICON: &str = include_str!("page/icon.svg");

/// No script and no style but our own files, no other address, no frame around it: a text that got past the escaping
/// could neither run nor send anything.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn html() -> HttpResponse {
    file("text/html; charset=utf-8", HTML)
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
            assert!(!HTML.contains(inline), "{inline} in the page");
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
