//! Parser of the lines that `MONITOR` prints: `+1700000000.123456 [0 127.0.0.1:5000] "set" "key" "value"`.

/// One command that Redis has run.
#[derive(Debug)]
pub struct MonitoredCommand {
    /// Seconds since 1970.
    pub at: f64,
    /// Address of the client, or `lua` for a command of a script.
    pub client: String,
    /// Name of the command, in upper case.
    pub name: String,
    pub arguments: Vec<String>,
}

impl MonitoredCommand {
    /// Parses a line; `None` if the line is not a command.
    pub fn parse(line: &str) -> Option<Self> {
        let (at, rest) = line.trim_end().strip_prefix('+')?.split_once(" [")?;
        let (client, words) = rest.split_once("] ")?;
        let (_database, client) = client.split_once(' ')?;
        let mut words = parse_words(words).into_iter();
        Some(Self {
            at: at.parse().ok()?,
            client: client.to_owned(),
            name: words.next()?.to_uppercase(),
            arguments: words.collect(),
        })
    }
}

/// Parses quoted words with the escapes `\"`, `\\`, `\n`, `\r`, `\t`, `\a`, `\b` and `\xff`.
fn parse_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match (byte, &mut word) {
            (b'"', None) => word = Some(Vec::new()),
            (b'"', Some(done)) => {
                words.push(String::from_utf8_lossy(done).into_owned());
                word = None;
            }
            (b'\\', Some(word)) => word.push(match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'a') => 7,
                Some(b'b') => 8,
                Some(b'x') => {
                    let mut digit = || char::from(bytes.next()?).to_digit(16);
                    let byte = digit().zip(digit()).map(|(high, low)| high * 16 + low);
                    byte.and_then(|byte| u8::try_from(byte).ok()).unwrap()
                }
                Some(escaped) => escaped,
                None => b'\\',
            }),
            (byte, Some(word)) => word.push(byte),
            (_, None) => {}
        }
    }
    words
}

#[test]
fn a_line_is_parsed_with_its_escapes() {
    let line = r#"+1700000000.500000 [0 127.0.0.1:5000] "set" "a b" "\"\\\n\x7f{}""#;
    let command = MonitoredCommand::parse(line).unwrap();
    assert_eq!(command.at, 1_700_000_000.5);
    assert_eq!(command.client, "127.0.0.1:5000");
    assert_eq!(command.name, "SET");
    assert_eq!(command.arguments, ["a b", "\"\\\n\u{7f}{}"]);
    assert!(MonitoredCommand::parse("+OK").is_none());
}
