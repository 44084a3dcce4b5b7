//! Contact tokens as text and as digest. The text leaves here for ManyChat alone, the digest for the database.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::domain::Redacted;

/// Bytes of a token (TOK-1).
const TOKEN_BYTES: usize = 32;

/// The operating system gives no random bytes: no token can be made until it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random bytes, so no contact token can be made")]
pub struct NoRandomness;

/// A fresh contact token. It exists in memory until ManyChat has it, and nowhere else (TOK-2, TOK-3).
#[derive(Clone, Debug)]
pub struct ContactToken {
    /// 43 characters of base64url, for the contact's ManyChat field.
    pub text: Redacted<String>,
    /// What the database stores of it.
    pub digest: String,
}

impl ContactToken {
    /// Makes one from 32 bytes of the generator that also makes the keys of TLS (TOK-1).
    ///
    /// # Errors
    /// [`NoRandomness`]; issue no token then.
    pub fn fresh() -> Result<Self, NoRandomness> {
        let mut bytes = [0_u8; TOKEN_BYTES];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).map_err(|_| NoRandomness)?;
        let text = URL_SAFE_NO_PAD.encode(bytes);
        let digest = digest(&text);
        Ok(Self { text: Redacted::new(text), digest })
    }
}

/// Lower-case hex SHA-256 of a token's text (TOK-2).
#[must_use]
pub fn digest(token: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(token.as_bytes()) {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TOK-2
    #[test]
    fn a_token_is_stored_as_lower_case_hex_sha_256() {
        assert_eq!(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    /// TOK-1, TOK-3: 43 characters that need no escaping anywhere, never twice the same, and never printed.
    #[test]
    fn a_fresh_token_has_its_shape_and_prints_nothing_of_itself() {
        let (one, two) = (ContactToken::fresh().unwrap(), ContactToken::fresh().unwrap());
        let text = one.text.expose();
        assert_eq!(text.len(), 43);
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
        assert_ne!(text, two.text.expose());
        assert_eq!(one.digest, digest(text));
        assert!(!format!("{one:?}").contains(text.as_str()));
    }
}
