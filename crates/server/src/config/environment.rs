//! Environment variables. [`Environment::from_process`] is the only place that reads them from the process.
//!
//! Two families set values: integration variables (`REDIS_HOST`, …), which existing applications of the documented
//! Redis keys use, and `PARLOR_SECTION__KEY`.

use std::collections::BTreeMap;

use super::layer::{ConfigLayer, SettingOrigin};
use super::setting_kind::RawValue;
use super::settings::{self, Setting};

/// Variables of a process. Invalid UTF-8 in a value is replaced.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

/// Prints names only, because any value may be a secret.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// Reads the variables of this process.
    pub fn from_process() -> Environment {
        let text = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
        Environment(
            std::env::vars_os()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
        )
    }

    /// Creates an environment from pairs of name and value.
    pub fn from_pairs<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Environment {
        Environment(
            variables
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// Value of a variable; `None` if it is missing or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

/// Integration variables: name, setting and description. docs/config.md lists them from here.
#[rustfmt::skip]
pub const INTEGRATION_VARIABLES: [(&str, &str, &str); 7] = [
    ("REDIS_HOST", "store.url", "Host of Redis; without `REDIS_PORT` it means `redis://HOST:6379/0`."),
    ("REDIS_PORT", "store.url", "Port of Redis; needs `REDIS_HOST`."),
    ("REDIS_PASSWORD", "store.password", "Password of Redis."),
    ("REDIS_KEY_PREFIX", "keys.prefix", "Prefix of every key and channel."),
    ("MESSAGE_RATE_LIMIT", "limits.messages", "Number of messages that a user may send within the window."),
    ("MESSAGE_RATE_WINDOW", "limits.message_window", "Length of the window, in milliseconds."),
    ("NOTIFICATION_REDIS_CHANNEL", "notifications.channel", "Channel for new messages instead of `events:message.created`."),
];

/// Reads the integration variables.
pub fn read_integration_variables(environment: &Environment) -> ConfigLayer {
    let mut layer = ConfigLayer::default();
    add_store_url(environment, &mut layer);
    for (variable, name, _) in INTEGRATION_VARIABLES {
        let Some(value) = environment.get(variable) else {
            continue;
        };
        let value = match variable {
            "REDIS_HOST" | "REDIS_PORT" => continue,
            "MESSAGE_RATE_WINDOW" if value.bytes().all(|b| b.is_ascii_digit()) => {
                format!("{value}ms")
            }
            "MESSAGE_RATE_WINDOW" => {
                let message = format!("`{value}` is not a whole number of milliseconds");
                layer.add_problem(variable, message);
                continue;
            }
            _ => value.to_owned(),
        };
        let origin = SettingOrigin::Variable(variable.into());
        layer.add_entry(name, RawValue::Scalar(value), origin);
    }
    layer
}

/// Builds `store.url` from host and port.
fn add_store_url(environment: &Environment, layer: &mut ConfigLayer) {
    let port = match environment.get("REDIS_PORT") {
        // Kubernetes sets REDIS_PORT=tcp://10.0.0.1:6379 in every pod of a namespace with a service named `redis`.
        Some(link) if link.starts_with("tcp://") => {
            layer.warnings.push(format!(
                "REDIS_PORT={link} is a Kubernetes service link and is ignored"
            ));
            None
        }
        other => other,
    };
    let Some(host) = environment.get("REDIS_HOST") else {
        if port.is_some() {
            let warning = "REDIS_PORT is set without REDIS_HOST and is ignored";
            layer.warnings.push(warning.into());
        }
        return;
    };
    let port = port.unwrap_or("6379");
    if port.parse::<u16>().is_err() {
        return layer.add_problem("REDIS_PORT", format!("`{port}` is not a port number"));
    }
    if host.contains(['/', '@', ' ']) {
        // The error does not repeat the value: a URL may contain a password.
        let message = "this is not a host name; to set a whole URL, use PARLOR_STORE__URL";
        return layer.add_problem("REDIS_HOST", message);
    }
    let host = match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    let url = RawValue::Scalar(format!("redis://{host}:{port}/0"));
    layer.add_entry(
        "store.url",
        url,
        SettingOrigin::Variable("REDIS_HOST".into()),
    );
}

/// Reads `PARLOR_SECTION__KEY`. A variable that looks like a setting but does not exist is an error.
pub fn read_parlor_variables(environment: &Environment) -> ConfigLayer {
    let mut layer = ConfigLayer::default();
    for (variable, value) in &environment.0 {
        let Some(rest) = variable.strip_prefix("PARLOR_") else {
            continue;
        };
        let origin = SettingOrigin::Variable(variable.clone());
        if let Some((section, key)) = rest.split_once("__") {
            let name = format!("{}.{}", section.to_lowercase(), key.to_lowercase());
            layer.add_entry(&name, RawValue::Scalar(value.clone()), origin);
        } else if let Some(meant) = suggest_two_underscores(rest) {
            let message = format!(
                "section and key are separated by two underscores; did you mean `{meant}`?"
            );
            layer.add_problem(origin, message);
        }
    }
    layer
}

/// Suggests the variable for a name with one underscore instead of two, such as `SERVER_HTTP`. `None` for the variables
/// that Kubernetes sets for a service named `parlor-…`.
fn suggest_two_underscores(rest: &str) -> Option<String> {
    let linked = rest.ends_with("_PORT") || rest.contains("_SERVICE_") || rest.contains("_PORT_");
    if linked {
        return None;
    }
    let lower = rest.to_lowercase();
    settings::sections().into_iter().find_map(|section| {
        let key = lower.strip_prefix(section)?.strip_prefix('_')?;
        let keys = settings::all_settings()
            .iter()
            .filter(|s| s.section() == section);
        let near = super::suggest::nearest(key, keys.map(Setting::key));
        Some(format!(
            "PARLOR_{}__{}",
            section.to_uppercase(),
            near.unwrap_or(key).to_uppercase()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Vec<(String, String, String)>, Vec<String>, usize) {
        let environment = Environment::from_pairs(variables.iter().copied());
        let (mut layer, own) = (
            read_integration_variables(&environment),
            read_parlor_variables(&environment),
        );
        layer.entries.extend(own.entries);
        layer.problems.extend(own.problems);
        let entries = layer.entries.iter().map(|e| match &e.raw {
            RawValue::Scalar(text) => (
                e.setting.name.to_owned(),
                text.clone(),
                e.origin.to_string(),
            ),
            other => (
                e.setting.name.to_owned(),
                format!("{other:?}"),
                e.origin.to_string(),
            ),
        });
        (
            entries.collect(),
            layer.problems.iter().map(ToString::to_string).collect(),
            layer.warnings.len(),
        )
    }

    fn one(name: &str, value: &str, origin: &str) -> Vec<(String, String, String)> {
        vec![(name.into(), value.into(), origin.into())]
    }

    #[test]
    fn a_redis_host_alone_means_its_usual_port_and_database() {
        assert_eq!(
            read(&[("REDIS_HOST", "cache")]).0,
            one("store.url", "redis://cache:6379/0", "REDIS_HOST")
        );
        let both = [("REDIS_HOST", "::1"), ("REDIS_PORT", "6380")];
        assert_eq!(
            read(&both).0,
            one("store.url", "redis://[::1]:6380/0", "REDIS_HOST")
        );
    }

    #[test]
    fn a_password_in_the_environment_is_never_printed() {
        let variables = [("REDIS_HOST", "redis://:hunter2@cache")];
        let problems = read(&variables).1;
        assert!(
            problems[0].contains("PARLOR_STORE__URL") && !problems[0].contains("hunter2"),
            "{problems:?}"
        );
        let shown = format!("{:?}", Environment::from_pairs(variables));
        assert!(
            shown.contains("REDIS_HOST") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn an_empty_variable_of_the_documents_sets_nothing() {
        assert_eq!(
            read(&[("REDIS_HOST", ""), ("REDIS_PASSWORD", "")]),
            (vec![], vec![], 0)
        );
    }

    #[test]
    fn service_variables_set_by_kubernetes_are_ignored() {
        let links = [
            ("REDIS_PORT", "tcp://10.0.0.1:6379"),
            ("PARLOR_PORT", "tcp://10.0.0.2:7070"),
            ("PARLOR_SERVICE_HOST", "10.0.0.2"),
            ("PARLOR_STORE_SERVICE_PORT", "6379"),
            ("PARLOR_STORE_PORT_6379_TCP", "tcp://10.0.0.3:6379"),
        ];
        assert_eq!(read(&links), (vec![], vec![], 1));
    }

    #[test]
    fn the_window_is_in_milliseconds() {
        let entries = read(&[("MESSAGE_RATE_WINDOW", "30000")]).0;
        assert_eq!(
            entries,
            one("limits.message_window", "30000ms", "MESSAGE_RATE_WINDOW")
        );
        assert!(read(&[("MESSAGE_RATE_WINDOW", "30s")]).1[0].contains("milliseconds"));
    }

    #[test]
    fn parlor_variables_are_read_and_near_misses_are_rejected() {
        let entries = read(&[("PARLOR_SERVER__HTTP", "0.0.0.0:1")]).0;
        assert_eq!(
            entries,
            one("server.http", "0.0.0.0:1", "PARLOR_SERVER__HTTP")
        );
        for (variable, hint) in [
            ("PARLOR_SERVER__HTPP", "did you mean `PARLOR_SERVER__HTTP`?"),
            ("PARLOR_SERVER_HTTP", "did you mean `PARLOR_SERVER__HTTP`?"),
            (
                "PARLOR_STORE_CA_CERT",
                "did you mean `PARLOR_STORE__CA_CERT`?",
            ),
        ] {
            let problems = read(&[(variable, "x")]).1;
            assert!(
                problems[0].starts_with(variable) && problems[0].contains(hint),
                "{problems:?}"
            );
        }
        assert_eq!(read(&[("PARLOR_UPDATE", "1")]), (vec![], vec![], 0));
    }
}
