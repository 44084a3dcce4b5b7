//! Who may reach the playground (DEC-16): this machine's own browser, on the playground's own pages.

use std::net::SocketAddr;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::guard::GuardContext;
use actix_web::http::header::{HOST, HeaderMap, ORIGIN};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, web};
use serde_json::json;

use super::chat::Playground;
use super::routes::PATH;

/// Names of this machine as a browser on it writes them. Any other name that leads here may be a stranger's, whose
/// page could then talk to us (DNS rebinding).
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Headers of proxies and tunnels: whoever sends them speaks for somebody else.
const FORWARDED: [&str; 9] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "cf-connecting-ip",
    "true-client-ip",
    "via",
];
/// What anybody on this machine may ask for: the page, which shows nothing without the key, and what it is made of.
const OPEN: [&str; 4] = ["/app.js", "/lines.js", "/style.css", "/icon.svg"];

/// True for a caller on this machine who speaks for himself; for everybody else the playground does not exist.
pub(super) fn is_local(context: &GuardContext<'_>) -> bool {
    let head = context.head();
    speaks_for_himself(head.peer_addr, head.headers())
}

fn speaks_for_himself(peer: Option<SocketAddr>, headers: &HeaderMap) -> bool {
    let own = peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
    own && !FORWARDED.iter().any(|name| headers.contains_key(*name))
}

/// Refuses a foreign host name, everything that another site's page asks for, and everything but the page for a browser
/// without the key, with the reason.
pub(super) async fn check<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let is_page = request.method() == Method::GET && request.path() == PATH;
    let part = request.path().strip_prefix(PATH).unwrap_or_default();
    let is_open = is_page || request.method() == Method::GET && OPEN.contains(&part);
    match judge(request.headers(), is_page).or_else(|| (!is_open).then(|| locked(&request)).flatten()) {
        Some(reason) => Ok(request.into_response(refusal(StatusCode::FORBIDDEN, reason))),
        None => Ok(next.call(request).await?.map_into_boxed_body()),
    }
}

/// Why a browser without the key is refused.
fn locked(request: &ServiceRequest) -> Option<&'static str> {
    let playground = request.app_data::<web::Data<Playground>>();
    let shown = playground.is_some_and(|playground| playground.key().is_in(request.headers()));
    (!shown).then_some("open the playground with the address that agent dev printed: it ends with ?key=…")
}

/// Why these headers are refused. The page itself may be opened from anywhere: by then nobody has learnt anything.
fn judge(headers: &HeaderMap, is_page: bool) -> Option<&'static str> {
    let Some(host) = own_host(headers) else {
        return Some("open the playground as localhost or 127.0.0.1: this host name is not this machine's");
    };
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    let same_site = site.is_none_or(|site| site == b"same-origin" || site == b"none");
    let mut origins = headers.get_all(ORIGIN);
    let same_origin = origins
        .all(|origin| origin.to_str().ok().and_then(|text| text.strip_prefix("http://")) == Some(host));
    let own_page = same_site && same_origin;
    (!is_page && !own_page).then_some("only the playground's own page may ask for this")
}

/// The one `Host`, when it is a name of this machine, with whatever port.
fn own_host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(HOST);
    let host = hosts.next()?.to_str().ok()?;
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let known = OWN_NAMES.iter().any(|own| name.eq_ignore_ascii_case(own));
    (known && hosts.next().is_none()).then_some(host)
}

/// A refusal of the playground, for its page to show.
pub(super) fn refusal(status: StatusCode, message: &str) -> HttpResponse {
    HttpResponse::build(status).json(json!({ "error": message }))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    /// DEC-16: loopback only, whatever a header claims; a tunnel on this machine speaks for strangers.
    #[test]
    fn only_a_caller_on_this_machine_is_local() {
        let local = |peer: &str, pairs: &[(&'static str, &'static str)]| {
            speaks_for_himself(Some(format!("{peer}:4711").parse().unwrap()), &headers(pairs))
        };
        for peer in ["127.0.0.1", "127.8.9.1", "[::1]", "[::ffff:127.0.0.1]"] {
            assert!(local(peer, &[("host", "localhost:3000")]), "{peer}");
        }
        for peer in ["192.0.2.7", "10.0.0.1", "172.17.0.1", "[2001:db8::1]", "[::ffff:192.0.2.7]", "0.0.0.0"]
        {
            assert!(!local(peer, &[("host", "localhost:3000")]), "{peer}");
        }
        for name in FORWARDED {
            assert!(!local("127.0.0.1", &[(name, "127.0.0.1")]), "{name}");
        }
        assert!(!speaks_for_himself(None, &headers(&[])));
    }

    /// DEC-16: a name that a stranger could point at this machine is refused.
    #[test]
    fn a_foreign_host_name_is_refused() {
        for host in ["localhost", "localhost:3000", "LOCALHOST:80", "127.0.0.1:3000", "[::1]:3000", "[::1]"] {
            assert_eq!(judge(&headers(&[("host", host)]), true), None, "{host}");
            assert_eq!(judge(&headers(&[("host", host)]), false), None, "{host}");
        }
        for host in [
            "attacker.example",
            "localhost.attacker.example:3000",
            "127.0.0.1.nip.io",
            "192.0.2.7:3000",
            "",
            ":3000",
        ] {
            assert!(judge(&headers(&[("host", host)]), true).is_some(), "{host}");
        }
        assert!(judge(&headers(&[]), true).is_some(), "no host");
        assert!(judge(&headers(&[("host", "localhost"), ("host", "attacker.example")]), true).is_some());
    }

    /// DEC-16: another site's page may link to the playground, and neither write to it nor read from it.
    #[test]
    fn what_another_site_asks_for_is_refused() {
        let judged = |pairs: &[(&'static str, &'static str)], is_page| {
            let mut all = vec![("host", "localhost:3000")];
            all.extend_from_slice(pairs);
            judge(&headers(&all), is_page).is_some()
        };
        for (name, value) in [
            ("origin", "https://attacker.example"),
            ("origin", "http://localhost:8080"),
            ("origin", "https://localhost:3000"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(judged(&[(name, value)], false), "{name}: {value}");
            assert!(!judged(&[(name, value)], true), "the page itself, {name}: {value}");
        }
        assert!(!judged(&[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-origin")], false));
        assert!(!judged(&[("sec-fetch-site", "none")], false), "an address that a person typed");
        assert!(judged(&[("origin", "http://localhost:3000"), ("sec-fetch-site", "cross-site")], false));
    }
}
