//! Configuration and start of a Redis or Valkey server.

use std::{fs, path::Path, process::Command};

use crate::{
    Redis,
    certificates::Certificates,
    free_port,
    programs::RedisFlavor,
    watchdog::StopSignal,
    watched_process::{TempFolder, WatchedProcess},
};

const CONFIG_FILE: &str = "server.conf";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RedisRole {
    #[default]
    DataServer,
    Sentinel,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TlsMode {
    #[default]
    Off,
    On,
    ClientCertificates,
}

/// Options of a server.
#[must_use]
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    flavor: RedisFlavor,
    role: RedisRole,
    extra_config: Vec<String>,
    /// Password of the default user.
    pub(crate) password: Option<String>,
    tls: TlsMode,
}

impl RedisOptions {
    pub(crate) fn flavor(mut self, flavor: RedisFlavor) -> Self {
        self.flavor = flavor;
        self
    }

    /// Options of a sentinel that runs the same program, without the other settings.
    pub(crate) fn sentinel(&self) -> Self {
        Self {
            flavor: self.flavor,
            role: RedisRole::Sentinel,
            ..Self::default()
        }
    }

    /// Adds a line to the configuration file, for example `maxmemory 2mb`.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.extra_config.push(line.into());
        self
    }

    /// Sets the password of the default user. Without it, the server rejects every command.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        let password = password.into();
        let quoted = quote_config_value(&password);
        self.password = Some(password);
        self.config(format!("requirepass {quoted}"))
            .config(format!("masterauth {quoted}"))
    }

    /// Adds a user with these rules, for example `~chat:* &* +@all -@admin`.
    pub fn acl_user(self, name: &str, password: &str, rules: &str) -> Self {
        self.config(format!(
            "user {name} on {} {rules}",
            quote_config_value(&format!(">{password}"))
        ))
    }

    /// Serves TLS only, with a certificate signed by a new authority, see [`Redis::ca_cert`].
    pub fn tls(mut self) -> Self {
        self.tls = TlsMode::On;
        self
    }

    /// Same as [`RedisOptions::tls`], and requires a client certificate, see [`Redis::client_cert`].
    pub fn tls_with_client_certificates(mut self) -> Self {
        self.tls = TlsMode::ClientCertificates;
        self
    }

    /// Makes every acknowledged write survive a `kill -9`.
    pub fn durable(self) -> Self {
        self.config("appendonly yes").config("appendfsync always")
    }

    /// Starts the server and waits until it answers.
    pub async fn start(self) -> Redis {
        let program = self.flavor.program();
        let folder = TempFolder::new("redis");
        let certificates = (self.tls != TlsMode::Off).then(|| Certificates::create(folder.path()));
        let mut port = 0;
        let command = || {
            port = free_port::find_free_port();
            let config = self.config_file(port, folder.path(), certificates.as_ref());
            fs::write(folder.path().join(CONFIG_FILE), config).unwrap();
            self.command(&program, folder.path())
        };
        let process = self.start_process(&folder, command).await;
        Redis::new(process, folder, certificates, port, self)
    }

    /// Starts the process again with the configuration file in its folder.
    pub(crate) async fn restart_process(&self, folder: &TempFolder) -> WatchedProcess {
        let program = self.flavor.program();
        self.start_process(folder, || self.command(&program, folder.path()))
            .await
    }

    pub(crate) fn is_data_server(&self) -> bool {
        self.role == RedisRole::DataServer
    }

    async fn start_process(
        &self,
        folder: &TempFolder,
        mut command: impl FnMut() -> Command,
    ) -> WatchedProcess {
        let line = match self.role {
            RedisRole::DataServer => "Ready to accept connections",
            RedisRole::Sentinel => "Sentinel ID is",
        };
        let is_ready = |process: &WatchedProcess| process.log().contains(line);
        let (name, log) = (self.flavor.name(), folder.path().join("log"));
        WatchedProcess::start(name, &log, StopSignal::Kill, || (command(), is_ready)).await
    }

    fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg(folder.join(CONFIG_FILE)).current_dir(folder);
        if self.role == RedisRole::Sentinel {
            command.arg("--sentinel");
        }
        command
    }

    fn config_file(&self, port: u16, folder: &Path, certificates: Option<&Certificates>) -> String {
        let path = |path: &Path| {
            quote_config_value(
                path.to_str()
                    .expect("the path of a temporary folder is UTF-8"),
            )
        };
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("dir {}", path(folder)),
            "daemonize no".to_owned(),
        ];
        if let Some(files) = certificates {
            let clients = if self.tls == TlsMode::On { "no" } else { "yes" };
            lines.extend([
                "port 0".to_owned(),
                format!("tls-port {port}"),
                format!("tls-ca-cert-file {}", path(&files.ca)),
                format!("tls-cert-file {}", path(&files.server.0)),
                format!("tls-key-file {}", path(&files.server.1)),
                format!("tls-auth-clients {clients}"),
            ]);
        } else {
            lines.push(format!("port {port}"));
        }
        if self.role == RedisRole::DataServer {
            // Without a delay, a replica is in sync at once.
            lines.push("save \"\"".to_owned());
            lines.push("repl-diskless-sync yes".to_owned());
            lines.push("repl-diskless-sync-delay 0".to_owned());
        }
        lines.extend(self.extra_config.iter().cloned());
        lines.join("\n") + "\n"
    }
}

/// Quotes a value of the configuration file.
pub(crate) fn quote_config_value(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
