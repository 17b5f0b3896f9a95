//! Bundles made with the real packing tool: installing, removing, and signatures by it and by OpenSSL.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize, date_time_ymd,
};
use switchboard_config::bundle::BundleServerKind;
use switchboard_packages::bundle::{
    BundleError, BundleStore, ChainFault, InspectedBundle, SignatureFault, SignatureState,
    SignatureTrust, install,
};
use tempfile::TempDir;
use testkit::real_servers;

const MANIFEST: &str = r#"{
  "manifest_version": "0.3", "name": "probe", "version": "1.0.0", "description": "A test",
  "author": {"name": "Test"},
  "server": {"type": "node", "entry_point": "server/index.js",
    "mcp_config": {"command": "node", "args": ["${__dirname}/server/index.js"]}}
}"#;

/// Runs the packing tool. Fails the test with its output if it fails.
#[track_caller]
fn mcpb(args: &[&str], folder: &Path) {
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let tool = real_servers::mcpb(&args);
    let run = Command::new(&tool.command)
        .args(&tool.args)
        .current_dir(folder)
        .output()
        .expect("the tool starts");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let errors = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "mcpb {args:?}: {text}{errors}");
}

/// A folder with a bundle `b.mcpb`, packed from `source`.
fn packed() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("source");
    fs::create_dir_all(source.join("server")).expect("folders");
    fs::write(source.join("manifest.json"), MANIFEST).expect("a file");
    fs::write(source.join("server/index.js"), "console.log(1)\n").expect("a file");
    let script = source.join("server/run.sh");
    fs::write(&script, "#!/bin/sh\n").expect("a file");
    make_executable(&script);
    mcpb(&["pack", "source", "b.mcpb"], folder.path());
    folder
}

#[cfg(unix)]
fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o4755)).expect("permissions");
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().expect("a file").permissions().mode() & 0o7777
}

fn store(folder: &TempDir, trust: SignatureTrust) -> BundleStore {
    BundleStore::new(&folder.path().join("store"), trust)
}

fn inspect(folder: &TempDir, trust: SignatureTrust) -> InspectedBundle {
    let bundle = folder.path().join("b.mcpb");
    store(folder, trust).inspect(&bundle).expect("the archive is valid")
}

fn signature(folder: &TempDir) -> SignatureState {
    inspect(folder, SignatureTrust::default()).signature
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder exists").flatten();
    let mut names: Vec<String> =
        entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_packed_bundle_is_installed_by_its_hash_listed_and_removed() {
    let folder = packed();
    let store = store(&folder, SignatureTrust::default());
    assert_eq!(store.hashes().expect("no bundle yet"), []);
    let bundle = folder.path().join("b.mcpb");
    let installed = install(&bundle, &store).expect("it is valid");
    assert_eq!(installed.manifest.server.kind, BundleServerKind::Node);
    assert_eq!(
        (installed.signature.as_str(), installed.file_name.as_deref()),
        ("unsigned", Some("b.mcpb"))
    );
    let script = fs::read_to_string(installed.folder.join("server/index.js")).expect("unpacked");
    assert_eq!(script, "console.log(1)\n");
    assert_eq!(mode(&installed.folder.join("server/index.js")), 0o644);
    assert_eq!(mode(&installed.folder.join("server/run.sh")), 0o755, "executable, but not setuid");
    assert_eq!(store.hashes().expect("one bundle"), std::slice::from_ref(&installed.hash));
    let again = install(&bundle, &store).expect("it is there already");
    assert_eq!((again.folder, again.signature), (installed.folder.clone(), installed.signature));
    assert_eq!(names_in(&folder.path().join("store")), [installed.hash.digits()]);
    store.remove(&installed.hash).expect("it is installed");
    assert_eq!(names_in(&folder.path().join("store")), Vec::<String>::new());
    let error = store.remove(&installed.hash).expect_err("it is gone");
    assert!(matches!(error, BundleError::NotInstalled { .. }), "{error}");
    assert!(matches!(store.installed(&installed.hash), Err(BundleError::NotInstalled { .. })));
}

#[test]
fn drafts_are_no_bundles_and_old_ones_are_removed() {
    let folder = packed();
    let path = folder.path().join("store");
    let old = path.join(".unpack-old");
    fs::create_dir_all(old.join("bundle")).expect("a folder");
    let recent = path.join(".unpack-recent");
    fs::create_dir_all(&recent).expect("a folder");
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    fs::File::open(&old).expect("a folder").set_modified(long_ago).expect("a time");
    let store = store(&folder, SignatureTrust::default());
    assert_eq!(store.hashes().expect("drafts are no bundles"), []);
    let installed = store.install(&folder.path().join("b.mcpb")).expect("it is valid");
    assert_eq!(names_in(&path), [".unpack-recent", installed.hash.digits()]);
}

#[test]
fn a_damaged_installation_is_replaced_and_added_files_do_no_harm() {
    let folder = packed();
    let store = store(&folder, SignatureTrust::default());
    let bundle = folder.path().join("b.mcpb");
    let content = store.install(&bundle).expect("it is valid").folder;
    // What a server writes beside its files, such as an environment.
    fs::write(content.join("cache"), "kept").expect("a file");
    store.install(&bundle).expect("it is there already");
    assert!(content.join("cache").exists(), "a good installation is left as it is");
    let script = content.join("server/index.js");
    let damages: [&dyn Fn(); 5] = [
        &|| fs::remove_file(content.join("manifest.json")).expect("it is there"),
        &|| fs::write(&script, "console.log(2)\n").expect("it is there"),
        &|| fs::write(&script, "console.log(1)\nmore").expect("it is there"),
        &|| fs::remove_dir_all(&content).expect("it is there"),
        &|| {
            fs::remove_file(&script).expect("it is there");
            std::os::unix::fs::symlink("/etc/hostname", &script).expect("a link");
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        damage();
        let installed = store.install(&bundle);
        assert!(installed.is_ok(), "damage {number}: {installed:?}");
        let text = fs::read_to_string(&script).expect("it is unpacked again");
        assert_eq!(text, "console.log(1)\n", "damage {number}");
        assert!(!content.join("cache").exists(), "damage {number}");
    }
    assert_eq!(names_in(&folder.path().join("store")).len(), 1, "nothing else stays");
}

#[test]
fn files_that_are_no_bundles_are_named_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store(&folder, SignatureTrust::default());
    let error = store.install(&folder.path().join("absent")).expect_err("there is no file");
    assert!(matches!(error, BundleError::Read { .. }), "{error}");
    let error = store.inspect(folder.path()).expect_err("it is a folder");
    assert!(matches!(error, BundleError::Read { .. }), "{error}");
    let text = folder.path().join("text");
    fs::write(&text, "no archive").expect("a file");
    let error = store.install(&text).expect_err("it is no archive");
    assert!(matches!(error, BundleError::Archive { .. }), "{error}");
    assert_eq!(names_in(&folder.path().join("store")), Vec::<String>::new());
}

#[test]
fn a_bundle_that_its_author_signed_with_the_tool_is_self_signed_and_can_be_installed() {
    let folder = packed();
    let unsigned = inspect(&folder, SignatureTrust::default());
    assert_eq!(unsigned.signature, SignatureState::Unsigned);
    mcpb(&["sign", "--self-signed", "b.mcpb"], folder.path());
    let signed = inspect(&folder, SignatureTrust::default());
    let SignatureState::SelfSigned(signer) = &signed.signature else {
        panic!("{:?}", signed.signature)
    };
    assert!(signer.subject.contains("MCPB Self-Signed Certificate"), "{signer:?}");
    assert_ne!(signed.hash, unsigned.hash, "the signature is part of the file");
    let installed =
        store(&folder, SignatureTrust::default()).install(&folder.path().join("b.mcpb"));
    assert_eq!(installed.expect("a tail is no problem").signature, "self-signed");
}

/// A certificate authority.
struct Authority {
    params: CertificateParams,
    key: KeyPair,
    der: Vec<u8>,
}

impl Authority {
    fn new() -> Authority {
        Authority::with_key(ecdsa_key())
    }

    fn with_key(key: KeyPair) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Test Authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let der = params.self_signed(&key).expect("a certificate").der().to_vec();
        Authority { params, key, der }
    }

    fn trust(&self) -> SignatureTrust {
        SignatureTrust { authorities: vec![self.der.clone().into()] }
    }

    /// Writes `cert.pem` and `key.pem` of a signer.
    fn issue(&self, folder: &TempDir, key: &KeyPair, change: impl FnOnce(&mut CertificateParams)) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Ada Example");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(key, &issuer).expect("a certificate");
        fs::write(folder.path().join("cert.pem"), certificate.pem()).expect("a file");
        fs::write(folder.path().join("key.pem"), key.serialize_pem()).expect("a file");
    }
}

fn rsa_key() -> KeyPair {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key")
}

fn ecdsa_key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key")
}

/// Appends a signature block.
fn append_signature(bundle: &Path, der: &[u8]) {
    let mut bytes = fs::read(bundle).expect("a bundle");
    let length = u32::try_from(der.len()).expect("a signature is short");
    bytes.extend_from_slice(b"MCPB_SIG_V1");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(der);
    bytes.extend_from_slice(b"MCPB_SIG_END");
    fs::write(bundle, bytes).expect("a bundle");
}

/// Signs with OpenSSL.
#[track_caller]
fn sign_with_openssl(folder: &TempDir, options: &[&str]) {
    let run = Command::new("openssl")
        .args(["cms", "-sign", "-binary", "-in", "b.mcpb", "-outform", "DER", "-out", "sig.der"])
        .args(["-signer", "cert.pem", "-inkey", "key.pem"])
        .args(options)
        .current_dir(folder.path())
        .output()
        .expect("openssl starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let der = fs::read(folder.path().join("sig.der")).expect("a signature");
    append_signature(&folder.path().join("b.mcpb"), &der);
}

#[track_caller]
fn check_signed(state: &SignatureState, expected: Option<ChainFault>) {
    let SignatureState::Signed { signer, fault } = state else { panic!("{state:?}") };
    assert_eq!(signer.subject, "CN=Ada Example");
    assert_eq!(signer.issuer, "CN=Test Authority");
    assert_eq!(*fault, expected);
}

#[test]
fn the_tools_signature_with_a_certificate_of_an_authority_names_the_signer() {
    let folder = packed();
    // The tool writes certificates of authorities with other keys in a form that is not valid.
    let authority = Authority::with_key(rsa_key());
    authority.issue(&folder, &rsa_key(), |_| {});
    mcpb(&["sign", "--cert", "cert.pem", "--key", "key.pem", "b.mcpb"], folder.path());
    check_signed(&inspect(&folder, authority.trust()).signature, None);
    check_signed(&signature(&folder), Some(ChainFault::UnknownAuthority));
    let other = Authority::with_key(rsa_key());
    // A certificate authority of the same name is not the same authority.
    let judged = inspect(&folder, other.trust()).signature;
    assert!(matches!(judged, SignatureState::Signed { fault: Some(_), .. }), "{judged:?}");
}

#[test]
fn the_tools_signature_by_an_author_with_an_accent_verifies() {
    let folder = packed();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Zoë 漢字");
    let key = rsa_key();
    let certificate = params.self_signed(&key).expect("a certificate");
    fs::write(folder.path().join("cert.pem"), certificate.pem()).expect("a file");
    fs::write(folder.path().join("key.pem"), key.serialize_pem()).expect("a file");
    // It encodes the name of the issuer twice, so that the certificate is found by its number only.
    mcpb(&["sign", "--cert", "cert.pem", "--key", "key.pem", "b.mcpb"], folder.path());
    let SignatureState::SelfSigned(signer) = signature(&folder) else {
        panic!("{:?}", signature(&folder))
    };
    assert_eq!(signer.subject, "CN=Zoë 漢字");
    let path = changed(&folder, |bytes, _| {
        let at = bytes.len() - b"MCPB_SIG_END".len() - 1;
        bytes[at] ^= 1;
    });
    check_broken(&folder, &path, SignatureFault::Mismatch);
}

#[test]
fn openssl_signatures_with_rsa_and_ecdsa_verify() {
    for key in [rsa_key(), ecdsa_key()] {
        let folder = packed();
        let authority = Authority::new();
        authority.issue(&folder, &key, |_| {});
        sign_with_openssl(&folder, &["-md", "sha256"]);
        check_signed(&inspect(&folder, authority.trust()).signature, None);
    }
    let folder = packed();
    let authority = Authority::new();
    authority.issue(&folder, &ecdsa_key(), |params| {
        params.key_identifier_method = rcgen::KeyIdMethod::Sha256;
        params.is_ca = IsCa::ExplicitNoCa;
    });
    sign_with_openssl(&folder, &["-md", "sha256", "-keyid"]);
    check_signed(&inspect(&folder, authority.trust()).signature, None);
}

#[test]
fn a_certificate_that_expired_or_is_for_another_purpose_is_not_trusted() {
    let authority = Authority::new();
    for (change, fault) in [
        (
            (|params: &mut CertificateParams| {
                params.not_before = date_time_ymd(2001, 1, 1);
                params.not_after = date_time_ymd(2002, 1, 1);
            }) as fn(&mut CertificateParams),
            ChainFault::Expired,
        ),
        (
            |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth],
            ChainFault::Purpose,
        ),
    ] {
        let folder = packed();
        authority.issue(&folder, &ecdsa_key(), change);
        sign_with_openssl(&folder, &["-md", "sha256"]);
        check_signed(&inspect(&folder, authority.trust()).signature, Some(fault));
    }
}

/// The bundle after `change` of its bytes, which get where the signature block begins.
fn changed(folder: &TempDir, change: impl FnOnce(&mut Vec<u8>, usize)) -> PathBuf {
    let mut bytes = fs::read(folder.path().join("b.mcpb")).expect("a bundle");
    let block = bytes.windows(11).rposition(|it| it == b"MCPB_SIG_V1").expect("it is signed");
    change(&mut bytes, block);
    let path = folder.path().join("changed.mcpb");
    fs::write(&path, bytes).expect("a bundle");
    path
}

#[track_caller]
fn check_broken(folder: &TempDir, path: &Path, expected: SignatureFault) {
    let store = store(folder, SignatureTrust::default());
    if expected != SignatureFault::Block {
        let inspected = store.inspect(path).expect("the archive itself is valid");
        assert_eq!(inspected.signature, SignatureState::Broken(expected));
    }
    let error = store.install(path).expect_err("it is refused");
    assert!(
        matches!(&error, BundleError::BrokenSignature { source, .. } if *source == expected),
        "{error:?}"
    );
    assert_eq!(names_in(&folder.path().join("store")), Vec::<String>::new());
}

#[test]
fn changed_archives_and_signatures_are_broken_and_never_installed() {
    let folder = packed();
    let authority = Authority::new();
    authority.issue(&folder, &rsa_key(), |_| {});
    sign_with_openssl(&folder, &["-md", "sha256"]);
    // The time of the first entry: the archive stays valid, but it is not what was signed. The list repeats it.
    let path = changed(&folder, |bytes, block| {
        let local = 10;
        let list = bytes[..block].windows(4).position(|it| it == b"PK\x01\x02").expect("a list");
        for at in [local, list + 12] {
            bytes[at] ^= 1;
        }
    });
    check_broken(&folder, &path, SignatureFault::Digest);
    // The last byte of an RSA signature.
    let path = changed(&folder, |bytes, _| {
        let at = bytes.len() - b"MCPB_SIG_END".len() - 1;
        bytes[at] ^= 1;
    });
    check_broken(&folder, &path, SignatureFault::Mismatch);
    let path = changed(&folder, |bytes, block| bytes[block + 11] ^= 1);
    check_broken(&folder, &path, SignatureFault::Block);
    let path = changed(&folder, |bytes, block| bytes[block + 15] = 0x04);
    check_broken(&folder, &path, SignatureFault::Structure);
    // Without the end of the block it is no signature, and what is left of it belongs to no file.
    let path = changed(&folder, |bytes, _| bytes.truncate(bytes.len() - 1));
    let error = store(&folder, SignatureTrust::default()).install(&path);
    assert!(matches!(error, Err(BundleError::Archive { .. })), "{error:?}");
}

#[test]
fn signatures_of_other_forms_are_broken() {
    for (options, fault) in [
        (&["-md", "sha1"][..], SignatureFault::Algorithm),
        (&["-md", "sha256", "-noattr"], SignatureFault::Structure),
        (&["-md", "sha256", "-nodetach"], SignatureFault::Structure),
        (&["-md", "sha256", "-nocerts"], SignatureFault::Certificate),
        (&["-md", "sha256", "-econtent_type", "1.2.3.4"], SignatureFault::Structure),
        (&["-md", "sha256", "-keyopt", "rsa_padding_mode:pss"], SignatureFault::Algorithm),
    ] {
        let folder = packed();
        Authority::new().issue(&folder, &rsa_key(), |_| {});
        sign_with_openssl(&folder, options);
        check_broken(&folder, &folder.path().join("b.mcpb"), fault);
    }
}

#[test]
fn a_signature_by_two_is_broken() {
    let folder = packed();
    let authority = Authority::new();
    authority.issue(&folder, &rsa_key(), |_| {});
    fs::rename(folder.path().join("cert.pem"), folder.path().join("a.pem")).expect("a file");
    fs::rename(folder.path().join("key.pem"), folder.path().join("a.key")).expect("a file");
    authority.issue(&folder, &rsa_key(), |_| {});
    sign_with_openssl(&folder, &["-md", "sha256", "-signer", "a.pem", "-inkey", "a.key"]);
    check_broken(&folder, &folder.path().join("b.mcpb"), SignatureFault::SignerCount);
}
