//! TLS without C: rustls over graviola, trusting what the system trusts or the certificates that are named.
use super::Error;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

/// Whom to trust.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// `SSL_CERT_FILE`: certificates in PEM.
    pub file: Option<PathBuf>,
    /// `SSL_CERT_DIR`: folders of such files.
    pub folders: Vec<PathBuf>,
}

/// The link of ureq's chain that puts TLS on connections that need it.
pub struct Tls {
    trust: Trust,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    /// Nothing is read before the first connection needs it.
    pub fn new(trust: Trust) -> Tls {
        Tls { trust, config: OnceLock::new() }
    }
    fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let config = config(&self.trust)?;
        Ok(self.config.get_or_init(|| config).clone())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Tls").field("trust", &self.trust).finish_non_exhaustive()
    }
}

impl<In: Transport> Connector<In> for Tls {
    type Out = Either<In, Stream>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let config = self.config().map_err(|error| ureq::Error::Other(Box::new(error)))?;
        let host = details.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| ureq::Error::Tls("the host's name is none that a certificate can have"))?;
        let mut conn = ClientConnection::new(config, name)
            .map_err(|error| ureq::Error::Other(Box::new(error)))?;
        let mut sock = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        sock.set_timeout(details.timeout);
        conn.complete_io(&mut sock)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Either::B(Stream { buffers, stream: StreamOwned { conn, sock } })))
    }
}

/// A connection with TLS.
pub struct Stream {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl Transport for Stream {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }
    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }
    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }
    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }
    fn is_tls(&self) -> bool {
        true
    }
}

fn config(trust: &Trust) -> Result<Arc<ClientConfig>, Error> {
    processor(&features())?;
    let provider = Arc::new(rustls_graviola::default_provider());
    let verifier = Arc::new(Naming(verifier(trust, &provider)?));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Setting { name: "https", problem: format!("can't be set up: {e}") })?;
    // The verifier is the platform's or rustls' own: it only gains words.
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    Ok(Arc::new(builder.with_no_client_auth()))
}

/// What graviola needs of the processor, and whether it is there: it panics without.
fn features() -> Vec<(&'static str, bool)> {
    #[cfg(target_arch = "x86_64")]
    return vec![
        ("ADX", is_x86_feature_detected!("adx")),
        ("AES", is_x86_feature_detected!("aes")),
        ("AVX", is_x86_feature_detected!("avx")),
        ("AVX2", is_x86_feature_detected!("avx2")),
        ("BMI1", is_x86_feature_detected!("bmi1")),
        ("PCLMULQDQ", is_x86_feature_detected!("pclmulqdq")),
    ];
    #[cfg(target_arch = "aarch64")]
    return vec![
        ("AES", std::arch::is_aarch64_feature_detected!("aes")),
        ("SHA2", std::arch::is_aarch64_feature_detected!("sha2")),
        ("PMULL", std::arch::is_aarch64_feature_detected!("pmull")),
    ];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return vec![("64-bit x86 or Arm instructions", false)];
}

fn processor(features: &[(&str, bool)]) -> Result<(), Error> {
    let names = |all: bool| {
        let named = features.iter().filter(|(_, has)| all || !has).map(|(name, _)| *name);
        named.collect::<Vec<_>>().join(", ")
    };
    let lacking = names(false);
    if lacking.is_empty() { Ok(()) } else { Err(Error::Processor { needed: names(true), lacking }) }
}

/// The certificates that are named, else the system's, else Mozilla's as of this program.
fn verifier(
    trust: &Trust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let own = |roots: RootCertStore| -> Result<Arc<dyn ServerCertVerifier>, Error> {
        let built =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        Ok(built.map_err(|e| Error::Setting {
            name: "SSL_CERT_FILE",
            problem: format!("can't be used: {e}"),
        })?)
    };
    if trust.file.is_none() && trust.folders.is_empty() {
        return match rustls_platform_verifier::Verifier::new(provider.clone()) {
            Ok(system) => Ok(Arc::new(system)),
            Err(_) => own(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }),
        };
    }
    let mut roots = RootCertStore::empty();
    if let Some(file) = &trust.file {
        let problem = |what: String| Error::Setting {
            name: "SSL_CERT_FILE",
            problem: format!(
                "is {}: {what}; it is to be a file of certificates in PEM",
                file.display()
            ),
        };
        let certificates =
            CertificateDer::pem_file_iter(file).map_err(|e| problem(e.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|e| problem(e.to_string()))?;
            roots.add(certificate).map_err(|e| problem(e.to_string()))?;
        }
        if roots.is_empty() {
            return Err(problem("it has no certificate".into()));
        }
    }
    for folder in &trust.folders {
        let files = std::fs::read_dir(folder).map_err(|e| Error::Setting {
            name: "SSL_CERT_DIR",
            problem: format!(
                "is {}: {e}; it is to be a folder of certificates in PEM",
                folder.display()
            ),
        })?;
        // Such folders have other files too.
        let certificates =
            files.flatten().filter_map(|f| CertificateDer::pem_file_iter(f.path()).ok());
        roots.add_parsable_certificates(certificates.flat_map(Iterator::flatten));
    }
    if roots.is_empty() {
        let problem = "names no folder with a certificate in PEM".into();
        return Err(Error::Setting { name: "SSL_CERT_DIR", problem });
    }
    own(roots)
}

/// Says who signed a certificate that is not trusted.
#[derive(Debug)]
struct Naming(Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for Naming {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let result =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        result.map_err(|error| {
            let issuer = issuer(intermediates.last().unwrap_or(end_entity));
            rustls::Error::General(format!(
                "its certificate, issued by {}, is not trusted ({error}); if that is your network's own authority, set \
                 SSL_CERT_FILE to its certificate in PEM",
                issuer.as_deref().unwrap_or("an authority without a name"),
            ))
        })
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// The issuer's common name, or its organisation: the first of the certificate, which is the issuer's (RFC 5280, 4.1).
fn issuer(certificate: &[u8]) -> Option<String> {
    let named = |oid: &[u8]| {
        let at = certificate.windows(oid.len()).position(|bytes| bytes == oid)? + oid.len();
        let &[_, length, ref rest @ ..] = &certificate[at..] else { return None };
        let text = String::from_utf8_lossy(rest.get(..usize::from(length))?);
        Some(format!("'{}'", text.escape_debug()))
    };
    // 2.5.4.3 and 2.5.4.10
    named(&[6, 3, 0x55, 4, 3]).or_else(|| named(&[6, 3, 0x55, 4, 10]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_processors_are_told() {
        assert!(processor(&[("AES", true), ("AVX2", true)]).is_ok());
        let error = processor(&[("AES", true), ("AVX2", false), ("ADX", false)]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("AES, AVX2, ADX") && text.contains("lacks AVX2, ADX:"), "{text}");
        assert!(!features().is_empty());
    }

    #[test]
    fn named_certificates_must_be_there() {
        let check = |file: &str, says: &str| {
            let trust = Trust { file: Some(file.into()), folders: Vec::new() };
            let provider = Arc::new(rustls_graviola::default_provider());
            let error = verifier(&trust, &provider).unwrap_err().to_string();
            assert!(error.contains("SSL_CERT_FILE") && error.contains(says), "{error}");
        };
        check("no/such/file.pem", "no/such/file.pem");
        check(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "no certificate");
    }
}
