//! Combinations of the settings of the section `auth`.

use super::super::config::JwksLocation;
use super::super::*;

fn refusal(written: AuthSettings<'_>) -> String {
    AuthConfig::new(&written).unwrap_err().to_string()
}

#[test]
fn contradicting_settings_are_rejected_with_a_fix() {
    let none = AuthSettings::default();
    let rs256 = AuthSettings {
        algorithm: "RS256",
        ..none
    };
    for (written, said) in [
        (
            AuthSettings {
                public_key: "k.pem",
                ..none
            },
            "auth.public_key needs auth.algorithm",
        ),
        (
            AuthSettings {
                jwks: "k.json",
                ..none
            },
            "auth.jwks needs auth.algorithm",
        ),
        (
            AuthSettings {
                secret: "a,b,c",
                ..none
            },
            "more than two secrets",
        ),
        (
            AuthSettings {
                secret: " , ",
                ..none
            },
            "holds no secret",
        ),
        (rs256, "needs auth.public_key or auth.jwks"),
        (
            AuthSettings {
                secret: "s",
                public_key: "k.pem",
                ..rs256
            },
            "auth.secret is not used with RS256",
        ),
        (
            AuthSettings {
                jwks: "k.json",
                public_key: "k.pem",
                ..rs256
            },
            "exclude each other",
        ),
        (
            AuthSettings {
                jwks: "ftp://h/k",
                ..rs256
            },
            "must be the path of a file or begin with https://",
        ),
        (
            AuthSettings {
                jwks: "https://u:p@h/k",
                ..rs256
            },
            "must not contain a user or a password",
        ),
        (
            AuthSettings {
                jwks: "https:// h",
                ..rs256
            },
            "is not a URL",
        ),
        (
            AuthSettings {
                jwks: "https://:443/k",
                ..rs256
            },
            "is not a URL",
        ),
        (
            AuthSettings {
                jwks: "https:///k",
                ..rs256
            },
            "is not a URL",
        ),
        (
            AuthSettings {
                jwks: "https://h:99999/k",
                ..rs256
            },
            "is not a URL",
        ),
        (
            AuthSettings {
                jwks: "https://[::1]:x/k",
                ..rs256
            },
            "is not a URL",
        ),
    ] {
        let refused = refusal(written);
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn each_kind_of_key_source_is_recognized() {
    let of = |written| AuthConfig::new(&written).unwrap().keys;
    let none = AuthSettings::default();
    let ed = AuthSettings {
        algorithm: "EdDSA",
        ..none
    };
    assert!(matches!(of(none), KeySource::Generated));
    assert!(matches!(
        of(AuthSettings {
            secret: "a",
            ..none
        }),
        KeySource::Secrets(_, None)
    ));
    assert!(matches!(
        of(AuthSettings {
            secret: "a,b",
            ..none
        }),
        KeySource::Secrets(_, Some(_))
    ));
    assert!(matches!(
        of(AuthSettings {
            public_key: "k.pem",
            ..ed
        }),
        KeySource::PublicKey {
            pem: PublicKeyPem::File(_),
            ..
        }
    ));
    assert!(matches!(
        of(AuthSettings {
            jwks: "k.json",
            ..ed
        }),
        KeySource::Jwks {
            location: JwksLocation::File(_),
            ..
        }
    ));
    let KeySource::Jwks { location, .. } = of(AuthSettings {
        jwks: "https://h:1/k?key=hidden",
        ..ed
    }) else {
        panic!("not a key set");
    };
    assert_eq!(location.to_string(), "https://h:1/k");
    assert!(!format!("{location:?}").contains("hidden"));
}

#[test]
fn a_jwks_url_over_plain_http_is_reported_unless_it_is_loopback() {
    for (jwks, exposed) in [
        ("k.json", false),
        ("https://issuer.example/k", false),
        ("http://127.0.0.1:1/k", false),
        ("http://[::1]/k", false),
        ("http://[::1]:80/k", false),
        ("http://localhost/k", false),
        ("http://issuer.example/k", true),
        ("http://10.0.0.1/k", true),
    ] {
        let written = AuthSettings {
            algorithm: "ES256",
            jwks,
            ..AuthSettings::default()
        };
        let KeySource::Jwks { location, .. } = AuthConfig::new(&written).unwrap().keys else {
            panic!("not a key set");
        };
        assert_eq!(location.is_unencrypted_remote(), exposed, "{jwks}");
    }
}
