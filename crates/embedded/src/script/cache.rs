//! Compiled scripts by the SHA-1 of their text.
//!
//! Always true:
//! 1. A script that was loaded stays until the cache is flushed; of those that came with `EVAL` only the newest stay,
//!    so that a client that pastes values into its scripts does not fill the memory.
//! 2. There are never more scripts than leave Lua enough of the slots it lends to its host: it has 8,000, and every
//!    argument of a call needs one.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use mlua::Function;

use super::shebang::Shebang;
use crate::native::NativeScript;

/// How many scripts there may be.
const MAX_SCRIPTS: usize = 2_000;

/// The SHA-1 of a script's text.
pub(super) type Sha = [u8; 20];

/// A compiled script.
#[derive(Clone)]
pub(super) struct CompiledScript {
    pub function: Function,
    pub shebang: Option<Shebang>,
    /// What stands in for it.
    pub native: Option<NativeScript>,
}

struct CachedScript {
    script: CompiledScript,
    loaded: bool,
}

/// All compiled scripts.
pub(super) struct ScriptCache {
    scripts: HashMap<Sha, CachedScript, RandomState>,
    /// Those that came with `EVAL`, oldest first; one may have been loaded since.
    eval_scripts: VecDeque<Sha>,
    max_eval_scripts: usize,
}

impl ScriptCache {
    /// A cache that keeps `room` scripts that were not loaded.
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

    /// Makes a script stay. Whether it is there.
    pub fn keep(&mut self, sha: &Sha) -> bool {
        self.scripts
            .get_mut(sha)
            .map(|entry| entry.loaded = true)
            .is_some()
    }

    /// Lets a step stand in for a script that is there.
    pub fn attach_native(&mut self, sha: &Sha, native: NativeScript) {
        if let Some(entry) = self.scripts.get_mut(sha) {
            entry.script.native = Some(native);
        }
    }

    /// Whether another script can be loaded.
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

/// A SHA-1 written as 40 hexadecimal digits of any case.
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

/// The SHA-1 of a script's text.
pub(super) fn sha_of(script: &[u8]) -> Sha {
    sha1_smol::Sha1::from(script).digest().bytes()
}

/// A SHA-1 in hexadecimal.
pub(super) fn hex(sha: &Sha) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    sha.iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
