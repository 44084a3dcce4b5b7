//! The key in the printed address (DEC-16): only who was told the address gets past the page, also where a proxy or a
//! tunnel that shows itself by no header passes strangers on to this machine.

use std::fmt::Write;

use actix_web::http::header::{COOKIE, HeaderMap};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::routes::PATH;
use crate::config::Settings;
use crate::domain::Redacted;

/// Name of the key in the address.
pub(super) const PARAMETER: &str = "key";
/// Hex digits of the key: 128 bits.
const DIGITS: usize = 32;
/// Digits of it in the cookie's name: cookies do not tell ports apart, so a second playground needs another name.
const DIGITS_IN_NAME: usize = 8;

/// What a browser has to show before it may do anything here.
#[derive(Clone, Debug)]
pub(super) struct Key(Redacted<String>);

impl Key {
    /// Made of the first shared secret, which stays here: it outlasts a restart, so that an open page goes on, and ends
    /// when the secret is rotated.
    pub(super) fn of(secret: &str) -> Self {
        let digest = Sha256::new().chain_update("playground\0").chain_update(secret).finalize();
        let mut digits = digest.iter().fold(String::new(), |mut digits, byte| {
            // Writing into a String cannot fail.
            let _ = write!(digits, "{byte:02x}");
            digits
        });
        digits.truncate(DIGITS);
        Self(Redacted::new(digits))
    }

    /// Whether a text is the key.
    pub(super) fn is(&self, text: &str) -> bool {
        bool::from(self.0.expose().as_bytes().ct_eq(text.as_bytes()))
    }

    /// Whether a browser shows it in its cookie.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let lines = headers.get_all(COOKIE).filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(given, _)| *given == name).any(|(_, value)| self.is(value))
    }

    /// The value of `Set-Cookie`. No script reads it, and no other site's page sends it but by a link to the page.
    pub(super) fn cookie(&self) -> String {
        format!("{}={}; Path={PATH}; HttpOnly; SameSite=Lax", self.cookie_name(), self.0.expose())
    }

    fn cookie_name(&self) -> String {
        format!("playground_{}", self.0.expose().get(..DIGITS_IN_NAME).unwrap_or_default())
    }
}

/// The address of the playground with its key, for whoever started the service.
#[must_use]
pub fn address(settings: &Settings) -> String {
    let key = Key::of(settings.shared_secrets.iter().next().unwrap_or_default());
    format!("http://127.0.0.1:{}{PATH}?{PARAMETER}={}", settings.port, key.0.expose())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    /// DEC-16: the cookie opens the playground of its own secret, among other cookies, and no other.
    #[test]
    fn only_the_own_cookie_opens() {
        let (key, other) = (Key::of("a-shared-secret-1"), Key::of("a-shared-secret-2"));
        let cookie = key.cookie();
        let pair = cookie.split(';').next().unwrap();
        let opens = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, HeaderValue::from_str(line).unwrap());
            }
            key.is_in(&headers)
        };
        assert!(opens(&[pair]) && opens(&[&format!("a=b; {pair}; c")]) && opens(&["a=b", pair]));
        let (name, value) = pair.split_once('=').unwrap();
        for wrong in [
            String::new(),
            format!("{name}="),
            format!("{name}={value}0"),
            format!("other={value}"),
            other.cookie(),
        ] {
            assert!(!opens(&[&wrong]), "{wrong}");
        }
        assert!(!opens(&[]));
        assert!(key.is(value) && !key.is(&value[..31]) && !other.is(value));
        assert!(cookie.ends_with("; Path=/playground; HttpOnly; SameSite=Lax"), "{cookie}");
        assert!(!format!("{key:?}").contains(value), "not printed by accident");
    }
}
