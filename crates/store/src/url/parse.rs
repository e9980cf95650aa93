//! Parses store URLs.

use std::str::FromStr;

use super::{ServerAddress, StoreCredentials, StoreTls, StoreUrl, StoreUrlError};

const SCHEMES: [&str; 7] = [
    "embedded",
    "redis",
    "rediss",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
];
const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        let text = text.trim();
        let (scheme, rest) = text.split_once(':').ok_or_else(|| no_scheme_error(text))?;
        let scheme = scheme.to_ascii_lowercase();
        let scheme = scheme
            .replace("valkeys", "rediss")
            .replace("valkey", "redis");
        if !SCHEMES.contains(&scheme.as_str()) {
            let (found, suggestion) = (redact_password(&scheme), nearest_scheme(&scheme));
            return error(format!(
                "has the unknown scheme `{found}`: did you mean `{suggestion}`?"
            ));
        }
        if scheme == "embedded" {
            return match rest.trim_start_matches('/') {
                "" => Ok(Self::Embedded),
                rest => error(format!(
                    "`embedded:` must have nothing after the colon, found `{rest}`: the folder is set by `server.data`"
                )),
            };
        }
        StoreUrlParts::split(&scheme, rest)?.build()
    }
}

/// Parts of a URL that names servers.
struct StoreUrlParts<'a> {
    scheme: &'a str,
    tls: StoreTls,
    credentials: StoreCredentials,
    hosts: Vec<ServerAddress>,
    path: Vec<&'a str>,
}

impl<'a> StoreUrlParts<'a> {
    fn split(scheme: &'a str, rest: &'a str) -> Result<Self, StoreUrlError> {
        let secure = scheme.starts_with("rediss");
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        // The credentials are split off first, so that no part of a password is taken for another part and printed. A
        // password may contain any delimiter, and nothing after it contains an `@`.
        let (credentials, rest) = match rest.rsplit_once('@') {
            None => (StoreCredentials::default(), rest),
            Some((credentials, rest)) => (StoreCredentials::parse(credentials, scheme)?, rest),
        };
        let (rest, tls) = match rest.split_once('#') {
            None => (rest, if secure { StoreTls::On } else { StoreTls::Off }),
            Some((rest, "insecure")) if secure => (rest, StoreTls::Insecure),
            Some((_, mark)) => {
                let hint = "only `#insecure` with a `rediss` scheme is known";
                return unexpected_part(scheme, &format!("#{mark}"), hint);
            }
        };
        if let Some((_, query)) = rest.split_once('?') {
            let hint = "set options in the [store] section instead";
            return unexpected_part(scheme, &format!("?{query}"), hint);
        }
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = if scheme.ends_with("+sentinel") {
            SENTINEL_PORT
        } else {
            REDIS_PORT
        };
        let hosts = hosts.split(',').map(|host| {
            ServerAddress::parse(host.trim(), port)?.ok_or_else(|| {
                StoreUrlError(format!("has no host: write `{scheme}://host:{port}`"))
            })
        });
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let path = path.split('/').filter(|part| !part.is_empty()).collect();
        Ok(Self {
            scheme,
            tls,
            credentials,
            hosts,
            path,
        })
    }

    fn build(self) -> Result<StoreUrl, StoreUrlError> {
        let Self {
            scheme,
            tls,
            credentials,
            mut hosts,
            path,
        } = self;
        let rest =
            |found: &[&str], hint| unexpected_part(scheme, &format!("/{}", found.join("/")), hint);
        if scheme.ends_with("+cluster") {
            return match path.as_slice() {
                [] | ["0"] => Ok(StoreUrl::Cluster {
                    tls,
                    credentials,
                    seeds: hosts,
                }),
                more => rest(more, "a Cluster has database 0 only"),
            };
        }
        if scheme.ends_with("+sentinel") {
            return match path.as_slice() {
                [primary, database @ ..] if database.len() < 2 => Ok(StoreUrl::Sentinel {
                    tls,
                    credentials,
                    sentinels: hosts,
                    primary_name: (*primary).to_owned(),
                    database: parse_database(database.first())?,
                }),
                [_, _, more @ ..] => rest(more, "the path is `/primary/database`"),
                _ => error(format!(
                    "does not name the primary: write `{scheme}://host:26379/primary`, with the name that the sentinels use"
                )),
            };
        }
        if hosts.len() > 1 {
            return error(format!(
                "names several hosts: write `{scheme}+cluster://` for a Cluster or `{scheme}+sentinel://` for sentinels"
            ));
        }
        match path.as_slice() {
            database if database.len() < 2 => Ok(StoreUrl::Redis {
                tls,
                credentials,
                server: hosts.swap_remove(0),
                database: parse_database(database.first())?,
            }),
            more => rest(&more[1..], "the path is the database number"),
        }
    }
}

fn parse_database(text: Option<&&str>) -> Result<u32, StoreUrlError> {
    let Some(text) = text else { return Ok(0) };
    text.parse().or_else(|_| {
        error(format!(
            "has the database `{text}`: a database is a number such as 0"
        ))
    })
}

fn error<T>(problem: impl Into<String>) -> Result<T, StoreUrlError> {
    Err(StoreUrlError(problem.into()))
}

fn no_scheme_error(text: &str) -> StoreUrlError {
    StoreUrlError(format!(
        "`{}` has no scheme: write `embedded:`, `redis://host:6379/0`, `redis+sentinel://host:26379/primary` or \
         `redis+cluster://host:6379`",
        redact_password(text)
    ))
}

fn unexpected_part<T>(scheme: &str, found: &str, hint: &str) -> Result<T, StoreUrlError> {
    error(format!(
        "ends in `{found}`, which `{scheme}` does not allow: {hint}"
    ))
}

fn nearest_scheme(scheme: &str) -> &'static str {
    let rank = |known: &&&'static str| (strsim::jaro_winkler(known, scheme) * 1e6) as u64;
    SCHEMES.iter().max_by_key(rank).copied().unwrap_or("redis")
}

/// The text without anything that could be a password.
fn redact_password(text: &str) -> String {
    text.rsplit_once('@')
        .map_or_else(|| text.to_owned(), |(_, rest)| format!("…@{rest}"))
}

impl StoreCredentials {
    fn parse(text: &str, scheme: &str) -> Result<Self, StoreUrlError> {
        let Some((user, password)) = text.split_once(':') else {
            return error(format!(
                "has credentials without `:`: write `{scheme}://user:password@host`, or \
                 `{scheme}://:password@host` without a user"
            ));
        };
        let user = percent_decode(user)?;
        Ok(Self {
            user: Some(user).filter(|user| !user.is_empty()),
            password: Some(percent_decode(password)?),
        })
    }
}

fn percent_decode(text: &str) -> Result<String, StoreUrlError> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.ok_or_else(invalid_percent_error)?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| invalid_percent_error())
}

fn invalid_percent_error() -> StoreUrlError {
    let problem =
        "has an invalid `%` sequence in its user or password: write `%25` for a percent sign";
    StoreUrlError(problem.to_owned())
}

impl ServerAddress {
    /// Parses `host`, `host:port` or `[v6]:port`. Returns `None` if there is no host.
    pub(crate) fn parse(text: &str, default_port: u16) -> Result<Option<Self>, StoreUrlError> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => text
                .rsplit_once(':')
                .map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Ok(None);
        }
        let port = match port {
            None => default_port,
            Some(port) => match port.parse() {
                Ok(number) if number > 0 => number,
                // Any other text could be a password that was given without a host, so it is not printed.
                _ => {
                    let is_number =
                        port.len() < 6 && port.bytes().all(|byte| byte.is_ascii_digit());
                    let shown: &str = match is_number {
                        true => &format!("the port `{port}`"),
                        false => "a port that is not a number",
                    };
                    return error(format!(
                        "has {shown}: a port is a number between 1 and 65535"
                    ));
                }
            },
        };
        Ok(Some(Self {
            host: host.to_owned(),
            port,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        text.parse::<StoreUrl>()
            .map_or_else(|error| error.to_string(), |url| url.to_string())
    }

    #[test]
    fn every_scheme_is_understood_and_shown_without_its_password() {
        for (text, expected) in [
            ("embedded:", "embedded:"),
            ("embedded://", "embedded:"),
            ("redis://localhost", "redis://localhost:6379/0"),
            ("valkey://localhost", "redis://localhost:6379/0"),
            ("redis://:secret@h:1/2", "redis://:***@h:1/2"),
            ("redis://u:p%40%2fss@h:1/2", "redis://u:***@h:1/2"),
            (
                "rediss://u:p/q@[::1]:7/0#insecure",
                "rediss://u:***@[::1]:7/0#insecure",
            ),
            (
                "redis+sentinel://a,b:2,c/mymaster",
                "redis+sentinel://a:26379,b:2,c:26379/mymaster/0",
            ),
            (
                "rediss+sentinel://u:p@a:1/m/3",
                "rediss+sentinel://u:***@a:1/m/3",
            ),
            ("redis+cluster://a:1,b:2", "redis+cluster://a:1,b:2"),
            ("rediss+cluster://u:p@a", "rediss+cluster://u:***@a:6379"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn the_password_is_decoded_and_never_printed() {
        let url: StoreUrl = "redis://u:p%40ss:w@h".parse().unwrap();
        assert!(!format!("{url:?}").contains("p@ss"));
        let StoreUrl::Redis { credentials, .. } = url else {
            unreachable!()
        };
        assert_eq!(credentials.password.as_deref(), Some("p@ss:w"));
    }

    #[test]
    fn no_part_of_a_password_is_shown_whatever_it_holds_and_whatever_is_wrong() {
        for text in [
            "redis://u:se#cret@h",
            "redis://u:se?cret@h/0",
            "redis://u:se/cret@h/x",
            "redis://u:se@cret@h:0",
            "redis://u:se%cret@h",
            "redis://cret@h",
            "redis://u:cret@h",
            "redis://:cret",
            "redis://u:cret/0",
            "cret@h:6379",
            "cret@h",
            "u:cret@h",
            "redis+cluster://u:se#cret@a/7",
            "redis+sentinel://u:se?cret@a",
        ] {
            assert!(!shown(text).contains("cret"), "{text}: {}", shown(text));
        }
        let url: StoreUrl = "redis://u:se#c?r/e@t@h".parse().unwrap();
        let StoreUrl::Redis { credentials, .. } = url else {
            unreachable!()
        };
        assert_eq!(credentials.password.as_deref(), Some("se#c?r/e@t"));
    }

    #[test]
    fn a_wrong_url_says_where_and_what_to_write() {
        for (text, part) in [
            ("", "has no scheme"),
            ("localhost", "write `embedded:`"),
            ("reddis://h", "did you mean `redis`?"),
            ("redis+clster://h", "did you mean `redis+cluster`?"),
            ("embedded:/data", "set by `server.data`"),
            ("redis://", "no host"),
            ("redis://h:70000", "port `70000`"),
            ("redis://h:0", "port `0`"),
            ("redis://h:x", "a port that is not a number"),
            ("redis://secret@h", "write `redis://user:password@host`"),
            ("redis://h/one", "database `one`"),
            ("redis://h/1/2", "ends in `/2`"),
            ("redis://a,b", "redis+cluster://"),
            ("redis://h?db=1", "[store] section"),
            ("redis://h#insecure", "`rediss` scheme"),
            ("redis+sentinel://a", "name the primary"),
            ("redis+sentinel://a/m/1/2", "ends in `/2`"),
            ("redis+cluster://a/1", "database 0 only"),
            ("redis://u:%zz@h", "`%25`"),
        ] {
            assert!(shown(text).contains(part), "{text}: {}", shown(text));
        }
    }
}
