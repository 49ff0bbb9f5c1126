//! TLS to a database: whom to trust, as libpq's `sslmode` says it.
//!
//! | `sslmode` | encrypted | the server's certificate |
//! | --- | --- | --- |
//! | `disable` | no | |
//! | `prefer` | if the server offers it | any |
//! | `require` | yes | any |
//! | `verify-ca` | yes | of an authority in `sslrootcert` |
//! | `verify-full` | yes | the same, for the host's name |

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use std::{path::Path, sync::Arc};
use tidemill_env::World;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Which server may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Off,
    AnyIfOffered,
    Any,
    Authority,
    Full,
}

impl Trust {
    pub(super) fn of(mode: &str) -> Result<Self, String> {
        Ok(match mode {
            "disable" => Self::Off,
            "prefer" => Self::AnyIfOffered,
            "require" => Self::Any,
            "verify-ca" => Self::Authority,
            "verify-full" => Self::Full,
            _ => {
                return Err("`sslmode` is `disable`, `prefer`, `require`, `verify-ca` or \
                            `verify-full`"
                    .to_owned());
            }
        })
    }
}

/// The TLS connector; `roots` is a file of authorities.
pub(super) fn connector(
    world: &World,
    trust: Trust,
    roots: Option<&str>,
) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier = match trust {
        Trust::Off | Trust::AnyIfOffered | Trust::Any => None,
        Trust::Authority | Trust::Full => {
            let roots = roots.ok_or(
                "`sslmode=verify-ca` and `verify-full` need `sslrootcert=FILE`: the certificates \
                 of the authorities to trust, such as /etc/ssl/certs/ca-certificates.crt",
            )?;
            Some(verifier(world, &provider, roots)?)
        }
    };
    let any_name = trust != Trust::Full;
    let verifier = Arc::new(Verifier { provider: Arc::clone(&provider), verifier, any_name });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn verifier(
    world: &World,
    provider: &Arc<CryptoProvider>,
    file: &str,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let refused = |why: String| format!("`sslrootcert={file}` cannot be used: {why}");
    let bytes = world.disk.read(Path::new(file)).map_err(|error| refused(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(refused("it has no certificate in PEM".to_owned()));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| refused(error.to_string()))
}

/// Looks at the server's certificate as the mode says.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// None if any certificate will do.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    any_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(verifier) = &self.verifier else { return Ok(ServerCertVerified::assertion()) };
        match verifier.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is looked at last, when all else has been found good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
