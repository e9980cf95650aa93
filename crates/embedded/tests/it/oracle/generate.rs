//! Generates random steps from the templates in `templates.txt` and `scripts.txt`.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Argument of a command. Absolute times are separate variants, because the two clocks show different times.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandWord {
    Plain(Vec<u8>),
    /// This many seconds from now.
    Seconds(u64),
    /// This many milliseconds from now.
    Millis(u64),
}

impl CommandWord {
    /// Whether this is the argument `text`, in any case.
    pub fn is(&self, text: &str) -> bool {
        matches!(self, Self::Plain(word) if word.eq_ignore_ascii_case(text.as_bytes()))
    }
}

/// Name of a command in capitals.
pub fn name(words: &[CommandWord]) -> String {
    match words.first() {
        Some(CommandWord::Plain(name)) => String::from_utf8_lossy(name).to_ascii_uppercase(),
        _ => String::new(),
    }
}

/// Step that runs on both sides.
#[derive(Debug, Clone, PartialEq)]
pub enum OracleStep {
    Command(Vec<CommandWord>),
    Transaction(Vec<Vec<CommandWord>>),
    /// Moves both clocks by this many seconds.
    Advance(u64),
}

impl OracleStep {
    pub fn commands(&self) -> usize {
        match self {
            Self::Command(_) => 1,
            Self::Transaction(commands) => commands.len(),
            Self::Advance(_) => 0,
        }
    }
}

/// Prints a step as one line of words: special bytes as `\xNN`, blanks as `\x20`, an empty word as `""`.
impl fmt::Display for OracleStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => f.write_str(&line(words)),
            Self::Transaction(commands) => {
                let lines: Vec<_> = commands.iter().map(|words| line(words)).collect();
                write!(f, "MULTI {}", lines.join(" ; "))
            }
            Self::Advance(seconds) => write!(f, "ADVANCE {seconds}"),
        }
    }
}

fn line(words: &[CommandWord]) -> String {
    let word = |word: &CommandWord| match word {
        CommandWord::Seconds(n) => format!("<AT {n}>").replace(' ', "_"),
        CommandWord::Millis(n) => format!("<ATMS {n}>").replace(' ', "_"),
        CommandWord::Plain(bytes) if bytes.is_empty() => "\"\"".to_owned(),
        CommandWord::Plain(bytes) => bytes
            .iter()
            .map(|&c| match c {
                b'!'..=b'~' if c != b'\\' && c != b';' => char::from(c).to_string(),
                _ => format!("\\x{c:02x}"),
            })
            .collect(),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

impl FromStr for OracleStep {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let command = |text: &str| {
            text.split_whitespace()
                .map(parse_word)
                .collect::<Result<_, _>>()
        };
        if let Some(seconds) = line.strip_prefix("ADVANCE ") {
            return seconds
                .parse()
                .map(Self::Advance)
                .map_err(|e| format!("{line}: {e}"));
        }
        if let Some(commands) = line.strip_prefix("MULTI ") {
            return commands
                .split(" ; ")
                .map(command)
                .collect::<Result<_, _>>()
                .map(Self::Transaction);
        }
        command(line).map(Self::Command)
    }
}

fn parse_word(text: &str) -> Result<CommandWord, String> {
    let number = |text: &str| {
        text.trim_end_matches('>')
            .parse()
            .map_err(|e| format!("{text}: {e}"))
    };
    if let Some(n) = text.strip_prefix("<AT_") {
        return number(n).map(CommandWord::Seconds);
    }
    if let Some(n) = text.strip_prefix("<ATMS_") {
        return number(n).map(CommandWord::Millis);
    }
    if text == "\"\"" {
        return Ok(CommandWord::Plain(Vec::new()));
    }
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        let code = after
            .get(..2)
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.ok_or_else(|| format!("{text}: bad escape"))?);
        rest = &after[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(CommandWord::Plain(bytes))
}

/// Generator of steps. The same seed gives the same steps.
pub struct Generator {
    rng: SmallRng,
    /// Position in the sequence. It makes every TTL different, see `ttl`.
    at: u64,
}

fn lines(text: &'static str) -> Vec<&'static str> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

static TEMPLATES: LazyLock<Vec<&str>> = LazyLock::new(|| lines(include_str!("templates.txt")));
static SCRIPTS: LazyLock<Vec<&str>> = LazyLock::new(|| lines(include_str!("scripts.txt")));

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            at: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.random_range(0..bound)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }

    pub fn sequence(&mut self, length: usize) -> Vec<OracleStep> {
        let mut steps = Vec::new();
        for at in 0..length as u64 {
            self.at = at + 1;
            let step = match self.below(100) {
                0..4 => {
                    OracleStep::Transaction((0..=self.below(5)).map(|_| self.command()).collect())
                }
                4..14 => OracleStep::Command(self.script()),
                _ => OracleStep::Command(self.command()),
            };
            steps.push(step);
            // Few moves, and by odd amounts: see `ttl`.
            if at % 30 == 29 && self.chance(70) {
                steps.push(OracleStep::Advance(1 + 5_000 * (1 + self.below(3) as u64)));
            }
        }
        steps
    }

    fn command(&mut self) -> Vec<CommandWord> {
        let template = self.pick(&TEMPLATES);
        let mut words: Vec<CommandWord> = template.split(' ').map(|word| self.word(word)).collect();
        if self.chance(5)
            && let CommandWord::Plain(name) = &mut words[0]
        {
            name.make_ascii_lowercase();
        }
        // The result of a scan from an invented cursor and of a random pick differs between the engines. A short TTL
        // would end on the real clock while the manual clock stands still. The scores of `<KX>` must stay equal.
        let unchanged = ["SCAN", "RAND", "SPOP", "EX", "<KX>"];
        let fixed = unchanged.iter().any(|part| template.contains(part));
        let odds = if fixed { 100 } else { self.below(100) };
        match odds {
            0 if words.len() > 1 => drop(words.pop()),
            1 => words.push(self.word("<V>")),
            2 if words.len() > 1 => {
                let at = 1 + self.below(words.len() - 1);
                words[at] = self.word("<V>");
            }
            _ => {}
        }
        words
    }

    /// A command without absolute times. Scripts show their arguments in errors, so both sides must get the same
    /// arguments.
    fn command_without_timestamps(&mut self) -> Vec<CommandWord> {
        loop {
            let words = self.command();
            if words
                .iter()
                .all(|word| matches!(word, CommandWord::Plain(_)))
            {
                return words;
            }
        }
    }

    fn script(&mut self) -> Vec<CommandWord> {
        let (source, arguments) = self
            .pick(&SCRIPTS)
            .rsplit_once(" |")
            .expect("a bar after the script");
        let mut keys = Vec::new();
        let mut rest = Vec::new();
        let mut after_keys = false;
        for word in arguments.split_whitespace() {
            match word {
                "-" => after_keys = true,
                "@" => rest.extend(self.command_without_timestamps()),
                word if after_keys => rest.push(self.word(word)),
                word => keys.push(self.word(word)),
            }
        }
        let head = ["EVAL".to_owned(), source.to_owned(), keys.len().to_string()];
        let head = head
            .into_iter()
            .map(|word| CommandWord::Plain(word.into_bytes()));
        head.chain(keys.into_iter().chain(rest)).collect()
    }

    fn word(&mut self, word: &str) -> CommandWord {
        let text = match word {
            "<K>" => return self.key("thlsz"),
            "<KT>" => return self.key("t"),
            "<KF>" => return CommandWord::Plain(vec![b'n', b'0' + self.below(3) as u8]),
            "<KX>" => return CommandWord::Plain(vec![b'x', b'0' + self.below(3) as u8]),
            "<KH>" => return self.key("h"),
            "<KL>" => return self.key("l"),
            "<KS>" => return self.key("s"),
            "<KZ>" => return self.key("z"),
            "<V>" => return self.value(),
            "<S>" => (self.ttl()).to_string(),
            "<MS>" => (self.ttl() * 1_000).to_string(),
            "<AT>" => return CommandWord::Seconds(self.ttl()),
            "<ATMS>" => return CommandWord::Millis(self.ttl() * 1_000),
            "<I>" => (self.below(9) as i64 - 4).to_string(),
            "<C>" => self.below(4).to_string(),
            "<N>" => self
                .pick(&[
                    "0",
                    "1",
                    "-1",
                    "7",
                    "100",
                    "9223372036854775807",
                    "-9223372036854775808",
                    "x",
                    "1.5",
                    "",
                ])
                .to_owned(),
            "<T>" => self
                .pick(&[
                    "0",
                    "-1",
                    "x",
                    "1.5",
                    "9223372036854775807",
                    "-9223372036854775808",
                    "",
                ])
                .to_owned(),
            "<D>" => self
                .pick(&[
                    "0", "1", "-1", "2", "3", "10", "0.5", "-2.25", "1e3", "inf", "-inf", "nan",
                    "x", "3.0", "100",
                ])
                .to_owned(),
            "<B>" => self
                .pick(&[
                    "-inf", "+inf", "0", "(0", "1", "(1", "2", "(3", "10", "-1", "x", "(inf",
                ])
                .to_owned(),
            "<X>" => self
                .pick(&["-", "+", "[a", "(a", "[m2", "(m3", "[", "b", "[zz", "(1"])
                .to_owned(),
            "<F>" => format!("f{}", self.below(5)),
            "<M>" => self
                .pick(&["a", "b", "m1", "m2", "m3", "1", "2", "-7", ""])
                .to_owned(),
            "<E>" => self.pick(&["a", "b", "c", "1", "2", ""]).to_owned(),
            "<G>" => self
                .pick(&[
                    "*", "t*", "?1", "[hl]?", "f*", "m[12]", "[^a]", "nope", "\\a", "*1",
                ])
                .to_owned(),
            "<P>" => format!("channel{}", self.below(2)),
            literal => literal.to_owned(),
        };
        CommandWord::Plain(text.into_bytes())
    }

    fn key(&mut self, kinds: &str) -> CommandWord {
        let kinds = if self.chance(7) { "thlsz" } else { kinds };
        let kind = kinds.as_bytes()[self.below(kinds.len())];
        CommandWord::Plain(vec![kind, b'0' + self.below(3) as u8])
    }

    fn value(&mut self) -> CommandWord {
        let text: &[u8] = match self.below(12) {
            0..4 => return CommandWord::Plain((self.below(200) as i64 - 100).to_string().into_bytes()),
            4 => b"",
            5 => b"9223372036854775807",
            6 => b"007",
            7 => b"1.25",
            8 => b"\x00\xff\r\n binary",
            9 => b"a longer text that does not fit into any small encoding of the server at all, honestly",
            10 => b"{\"a\":[1,2]}",
            _ => b"hello",
        };
        CommandWord::Plain(text.to_vec())
    }

    /// A TTL that is never within seconds of another TTL or of the end of a move: a multiple of 5,000 s plus 10 s per
    /// position, while moves are multiples of 5,000 s plus 1 s. Real time that passes during a run therefore changes no
    /// reply.
    fn ttl(&mut self) -> u64 {
        5_000 * (1 + self.below(4) as u64) + 10 * self.at
    }
}
