//! Authentication: who holds the shared secret, and who may see the operators' pages.

use std::sync::Arc;

use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::config::SharedSecrets;
use crate::domain::Redacted;

type Sha = [u8; 32];

/// Scheme and blank of a credential, compared exactly (AUTH-1).
const SCHEME: &[u8] = b"Bearer ";

/// The valid bearer secrets with their digests. Digests are compared, so that neither content nor length of a
/// secret shows in the time it takes (AUTH-4).
#[derive(Clone)]
pub struct Secrets(Arc<[(Sha, Redacted<Arc<str>>)]>);

impl Secrets {
    /// All secrets of `MANYCHAT_SHARED_SECRET`; each is valid (AUTH-3).
    #[must_use]
    pub fn new(secrets: &SharedSecrets) -> Self {
        Self(secrets.iter().map(|secret| (sha(secret.as_bytes()), Redacted::new(secret.into()))).collect())
    }

    /// The secret this request presented, when it is a valid one: the callback carries just that one (AUTH-6).
    #[must_use]
    pub fn presented(&self, headers: &HeaderMap) -> Option<Redacted<Arc<str>>> {
        let offered = sha(bearer(headers)?);
        let mut found = None;
        for (digest, secret) in self.0.iter() {
            // Every entry is compared, whichever matches.
            if bool::from(digest.ct_eq(&offered)) {
                found = Some(secret.clone());
            }
        }
        found
    }
}

/// True when the request carries this bearer token.
pub(super) fn carries(headers: &HeaderMap, token: &Redacted<String>) -> bool {
    let offered = bearer(headers).map_or([0; 32], sha);
    let present = Choice::from(u8::from(bearer(headers).is_some()));
    bool::from(sha(token.expose().as_bytes()).ct_eq(&offered) & present)
}

/// What follows the scheme, as is (AUTH-1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(AUTHORIZATION)?.as_bytes().strip_prefix(SCHEME)
}

fn sha(text: &[u8]) -> Sha {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;

    fn secrets() -> Secrets {
        let secret = |text: &str| Redacted::new(text.to_owned());
        Secrets::new(&SharedSecrets(vec![secret("first-secret-of-16"), secret("second-secret-of-16")]))
    }

    fn presented(value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        secrets().presented(&headers).map(|secret| secret.expose().to_string())
    }

    /// AUTH-1, AUTH-3, AUTH-6
    #[test]
    fn the_presented_secret_is_recognised_exactly() {
        assert_eq!(presented("Bearer second-secret-of-16").as_deref(), Some("second-secret-of-16"));
        for wrong in [
            "bearer first-secret-of-16",
            "Bearer  first-secret-of-16",
            "Bearer first-secret-of-1",
            "Bearer first-secret-of-16x",
            "first-secret-of-16",
            "Bearer",
            "Bearer ",
        ] {
            assert_eq!(presented(wrong), None, "{wrong:?}");
        }
        assert!(secrets().presented(&HeaderMap::new()).is_none());
    }

    /// AUTH-4: the search goes on behind a match, so that its time does not tell which secret matched; the last of two equal
    /// ones shows it.
    #[test]
    fn every_secret_is_compared_whichever_matches() {
        let words =
            ["a-secret-of-some-length", "another-and-longer-secret-of-more", "a-secret-of-some-length"];
        let all = words.map(|word| Redacted::new(word.to_owned())).to_vec();
        let secrets = Secrets::new(&SharedSecrets(all));
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {}", words[0])).unwrap());
        let found = secrets.presented(&headers).unwrap();
        assert!(Arc::ptr_eq(found.expose(), secrets.0[2].1.expose()));
    }
}
