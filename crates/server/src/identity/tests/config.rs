//! What goes together in the section `auth`.

use super::super::*;

fn refusal(written: Written<'_>) -> String {
    AuthConfig::new(&written).unwrap_err().to_string()
}

#[test]
fn settings_that_do_not_go_together_are_refused_with_what_to_do() {
    let none = Written::default();
    let rs256 = Written {
        algorithm: "RS256",
        ..none
    };
    for (written, said) in [
        (
            Written {
                public_key: "k.pem",
                ..none
            },
            "auth.public_key needs auth.algorithm",
        ),
        (
            Written {
                jwks: "k.json",
                ..none
            },
            "auth.jwks needs auth.algorithm",
        ),
        (
            Written {
                secret: "a,b,c",
                ..none
            },
            "more than two secrets",
        ),
        (
            Written {
                secret: " , ",
                ..none
            },
            "holds no secret",
        ),
        (rs256, "needs auth.public_key or auth.jwks"),
        (
            Written {
                secret: "s",
                public_key: "k.pem",
                ..rs256
            },
            "auth.secret is not used with RS256",
        ),
        (
            Written {
                jwks: "k.json",
                public_key: "k.pem",
                ..rs256
            },
            "exclude each other",
        ),
        (
            Written {
                jwks: "ftp://h/k",
                ..rs256
            },
            "must be a file or begin with https://",
        ),
        (
            Written {
                jwks: "https://u:p@h/k",
                ..rs256
            },
            "must not hold a user or a password",
        ),
        (
            Written {
                jwks: "https:// h",
                ..rs256
            },
            "is not an address",
        ),
        (
            Written {
                jwks: "https://:443/k",
                ..rs256
            },
            "is not an address",
        ),
        (
            Written {
                jwks: "https:///k",
                ..rs256
            },
            "is not an address",
        ),
        (
            Written {
                jwks: "https://h:99999/k",
                ..rs256
            },
            "is not an address",
        ),
        (
            Written {
                jwks: "https://[::1]:x/k",
                ..rs256
            },
            "is not an address",
        ),
    ] {
        let refused = refusal(written);
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn each_way_to_know_a_token_is_recognised() {
    let of = |written| AuthConfig::new(&written).unwrap().keys;
    let none = Written::default();
    let ed = Written {
        algorithm: "EdDSA",
        ..none
    };
    assert!(matches!(of(none), KeySource::Generated));
    assert!(matches!(
        of(Written {
            secret: "a",
            ..none
        }),
        KeySource::Secrets(_, None)
    ));
    assert!(matches!(
        of(Written {
            secret: "a,b",
            ..none
        }),
        KeySource::Secrets(_, Some(_))
    ));
    assert!(matches!(
        of(Written {
            public_key: "k.pem",
            ..ed
        }),
        KeySource::PublicKey {
            pem: Pem::File(_),
            ..
        }
    ));
    assert!(matches!(
        of(Written {
            jwks: "k.json",
            ..ed
        }),
        KeySource::Jwks {
            location: Location::File(_),
            ..
        }
    ));
    let KeySource::Jwks { location, .. } = of(Written {
        jwks: "https://h:1/k?key=hidden",
        ..ed
    }) else {
        panic!("not a key set");
    };
    assert_eq!(location.to_string(), "https://h:1/k");
    assert!(!format!("{location:?}").contains("hidden"));
}

#[test]
fn a_set_that_crosses_a_network_without_tls_is_noticed() {
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
        let written = Written {
            algorithm: "ES256",
            jwks,
            ..Written::default()
        };
        let KeySource::Jwks { location, .. } = AuthConfig::new(&written).unwrap().keys else {
            panic!("not a key set");
        };
        assert_eq!(location.is_exposed(), exposed, "{jwks}");
    }
}
