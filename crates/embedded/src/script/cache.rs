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

use super::shebang::Shebang;
use crate::native::NativeScript;

/// Number of scripts at which `SCRIPT LOAD` is rejected.
const MAX_SCRIPTS: usize = 2_000;

/// SHA-1 of a script's source.
pub(super) type Sha = [u8; 20];

/// A compiled script.
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

/// All compiled scripts.
pub(super) struct ScriptCache {
    scripts: HashMap<Sha, CachedScript, RandomState>,
    /// Scripts that came with `EVAL`, oldest first. Some may have been loaded since.
    eval_scripts: VecDeque<Sha>,
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

    pub fn get(&self, sha: &Sha) -> Option<&CompiledScript> {
        self.scripts.get(sha).map(|entry| &entry.script)
    }

    pub fn contains(&self, sha: &Sha) -> bool {
        self.scripts.contains_key(sha)
    }

    /// Marks a script as loaded, so that it stays. Returns whether the cache contains it.
    pub fn keep(&mut self, sha: &Sha) -> bool {
        self.scripts
            .get_mut(sha)
            .map(|entry| entry.loaded = true)
            .is_some()
    }

    /// Attaches a native script to a script that the cache contains.
    pub fn attach_native(&mut self, sha: &Sha, native: NativeScript) {
        if let Some(entry) = self.scripts.get_mut(sha) {
            entry.script.native = Some(native);
        }
    }

    /// Whether one more script can be loaded.
    pub fn can_load(&self) -> bool {
        self.scripts.len() < MAX_SCRIPTS
    }

    pub fn insert(&mut self, sha: Sha, script: CompiledScript, loaded: bool) {
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
pub(super) fn parse(text: &[u8]) -> Option<Sha> {
    if text.len() != 40 {
        return None;
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let mut sha = Sha::default();
    for (byte, pair) in sha.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(sha)
}

/// SHA-1 of a script's source.
pub(super) fn sha_of(script: &[u8]) -> Sha {
    sha1_smol::Sha1::from(script).digest().bytes()
}

/// Formats a SHA-1 as hexadecimal digits.
pub(super) fn hex(sha: &Sha) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    sha.iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
