//! Compiled scripts by the SHA-1 of their source.
//!
//! Invariants:
//! 1. A loaded script stays until the cache is flushed. Of the scripts that came with `EVAL` only the newest stay, so a
//!    client that builds values into its scripts does not fill the memory.
//! 2. The number of scripts leaves enough of Lua's 8,000 C stack slots free, because every argument of a call needs a
//!    slot.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use mlua::Function;
use sha1_smol::{Digest, Sha1};

use super::shebang::Shebang;
use crate::scripting::native::NativeScript;

/// Number of scripts at which `SCRIPT LOAD` is rejected.
const MAX_SCRIPTS: usize = 2_000;

#[derive(Clone)]
pub(super) struct CompiledScript {
    pub function: Function,
    pub shebang: Option<Shebang>,
    /// Native script that runs in place of this script, if one is attached.
    pub native: Option<NativeScript>,
}

struct CachedScript {
    script: CompiledScript,
    loaded: bool,
}

pub(super) struct ScriptCache {
    scripts: HashMap<Digest, CachedScript, RandomState>,
    /// Scripts that came with `EVAL`, oldest first. Some may have been loaded since.
    eval_scripts: VecDeque<Digest>,
    max_eval_scripts: usize,
}

impl ScriptCache {
    /// Creates a cache that keeps at most this many scripts that were not loaded.
    pub fn new(max_eval_scripts: usize) -> Self {
        Self {
            scripts: HashMap::default(),
            eval_scripts: VecDeque::new(),
            max_eval_scripts,
        }
    }

    pub fn get(&self, sha: &Digest) -> Option<&CompiledScript> {
        self.scripts.get(sha).map(|entry| &entry.script)
    }

    pub fn contains(&self, sha: &Digest) -> bool {
        self.scripts.contains_key(sha)
    }

    /// Marks a script as loaded, so that it stays. Returns whether the cache contains it.
    pub fn mark_loaded(&mut self, sha: &Digest) -> bool {
        self.scripts
            .get_mut(sha)
            .map(|entry| entry.loaded = true)
            .is_some()
    }

    /// Attaches a native script to a script that the cache contains.
    pub fn attach_native(&mut self, sha: &Digest, native: NativeScript) {
        if let Some(entry) = self.scripts.get_mut(sha) {
            entry.script.native = Some(native);
        }
    }

    pub fn can_load(&self) -> bool {
        self.scripts.len() < MAX_SCRIPTS
    }

    pub fn insert(&mut self, sha: Digest, script: CompiledScript, loaded: bool) {
        self.scripts.insert(sha, CachedScript { script, loaded });
        if loaded {
            return;
        }
        self.eval_scripts.push_back(sha);
        while self.eval_scripts.len() > self.max_eval_scripts {
            let Some(oldest) = self.eval_scripts.pop_front() else {
                break;
            };
            if self.scripts.get(&oldest).is_some_and(|entry| !entry.loaded) {
                self.scripts.remove(&oldest);
            }
        }
    }

    pub fn clear(&mut self) {
        self.scripts.clear();
        self.eval_scripts.clear();
    }
}

/// Parses a SHA-1 of 40 hexadecimal digits in any case.
pub(super) fn parse_sha(text: &[u8]) -> Option<Digest> {
    // `Digest` panics inside a multi-byte character, and accepts a `+`.
    let text = std::str::from_utf8(text).ok()?;
    let is_hex = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| text.parse().ok()).flatten()
}

/// SHA-1 of a script's source.
pub(super) fn sha_of_source(source: &[u8]) -> Digest {
    Sha1::from(source).digest()
}
