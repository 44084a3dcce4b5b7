//! Which server certificates are believed, by `sslmode` (DEC-29).

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What is checked of a server's certificate.
pub(super) enum Checked {
    /// Nothing: the connection is encrypted, and anybody can be at its other end (`prefer`, `require`).
    Nothing,
    /// Who signed it (`verify-ca`).
    Authority(Roots),
    /// Who signed it, and that it is for this host (`verify-full`).
    AuthorityAndName(Roots),
}

/// Certificates that are believed.
pub(super) struct Roots(Vec<CertificateDer<'static>>);

impl Roots {
    /// Those of a PEM file; `Err` says in our words what is wrong with it.
    pub(super) fn from_file(path: &Path) -> Result<Self, String> {
        let pem = std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let found = found.map_err(|_| "is not a PEM file".to_owned())?;
        if found.is_empty() { Err("holds no certificate".to_owned()) } else { Ok(Self(found)) }
    }

    /// Those of the machine; `None` when there are none.
    pub(super) fn of_the_machine() -> Option<Self> {
        let found = rustls_native_certs::load_native_certs().certs;
        (!found.is_empty()).then_some(Self(found))
    }
}

/// Opens encrypted connections.
///
/// # Errors
/// When no root certificate can be used, or the build has no cipher.
pub(super) fn connector(checked: Checked) -> Result<MakeRustlsConnect, Error> {
    let provider = Arc::new(ring::default_provider());
    let judge = match checked {
        Checked::Nothing => Judge::Anybody,
        Checked::Authority(roots) => Judge::known(roots, false, &provider)?,
        Checked::AuthorityAndName(roots) => Judge::known(roots, true, &provider)?,
    };
    let verifier = Verifier { judge, provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[derive(Debug)]
struct Verifier {
    judge: Judge,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum Judge {
    Anybody,
    Known { chains: Arc<WebPkiServerVerifier>, listed: Vec<CertificateDer<'static>>, by_name: bool },
}

impl Judge {
    fn known(roots: Roots, by_name: bool, provider: &Arc<CryptoProvider>) -> Result<Self, Error> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.0.iter().cloned());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        Ok(Self::Known { chains, listed: roots.0, by_name })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Judge::Known { chains, listed, by_name } = &self.judge else {
            return Ok(ServerCertVerified::assertion());
        };
        // A server that signed its own certificate is known when just that one stands in the file.
        let verdict = if listed.iter().any(|known| known == end_entity) {
            let parsed = ParsedCertificate::try_from(end_entity)?;
            verify_server_name(&parsed, server_name).map(|()| ServerCertVerified::assertion())
        } else {
            chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        };
        match verdict {
            // The name is compared last: everything else was right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !by_name => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
