//! The configuration file: reads TOML with the line of each value, and collects all errors in one pass.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::layer::{ConfigLayer, SettingOrigin};
use super::setting_kind::RawValue;
use super::settings;
use super::suggest;

/// Name of the file that is read from the working folder if `--config` names none.
pub const CONFIG_FILE_NAME: &str = "parlor.toml";

/// Reads the named file, which must exist. Without a name, reads [`CONFIG_FILE_NAME`] if it exists.
pub fn read(named: Option<&Path>) -> ConfigLayer {
    let path = named.unwrap_or(Path::new(CONFIG_FILE_NAME));
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&path.display().to_string(), &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {
            ConfigLayer::default()
        }
        Err(error) => {
            let mut layer = ConfigLayer::default();
            layer.add_problem(path.display(), format!("cannot be read: {error}"));
            layer
        }
    }
}

/// Parses the text of a file with this name.
pub fn parse(file: &str, text: &str) -> ConfigLayer {
    let mut layer = ConfigLayer::default();
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        layer.add_problem(SettingOrigin::File(file.into(), line), error.message());
    }
    let reader = TomlReader { file, text };
    for (section, value) in table.into_inner() {
        reader.section(
            &mut layer,
            section.get_ref(),
            section.span().start,
            value.get_ref(),
        );
    }
    layer
}

struct TomlReader<'a> {
    file: &'a str,
    text: &'a str,
}

impl TomlReader<'_> {
    fn origin_at(&self, offset: usize) -> SettingOrigin {
        SettingOrigin::File(self.file.into(), line_of(self.text, offset))
    }

    fn section(&self, layer: &mut ConfigLayer, section: &str, offset: usize, value: &DeValue<'_>) {
        let known = settings::sections();
        let DeValue::Table(keys) = value else {
            let owner = settings::all_settings()
                .iter()
                .find(|setting| setting.key() == section);
            let hint = owner.map_or_else(
                || "settings belong to a section such as [server]".into(),
                |setting| {
                    format!(
                        "did you mean `{}` in [{}]?",
                        setting.key(),
                        setting.section()
                    )
                },
            );
            let message = format!("`{section}` is outside of a section; {hint}");
            return layer.add_problem(self.origin_at(offset), message);
        };
        // Report a mistyped section once instead of once for each of its keys.
        if !known.contains(&section)
            && keys
                .iter()
                .all(|(key, _)| !is_key_of_another_section(key.get_ref()))
        {
            let hint = suggest::nearest(section, known.iter().copied()).map_or_else(
                || format!("the known sections are {}", known.join(", ")),
                |name| format!("did you mean [{name}]?"),
            );
            let message = format!("there is no section [{section}]; {hint}");
            return layer.add_problem(self.origin_at(offset), message);
        }
        for (key, value) in keys {
            let name = format!("{section}.{}", key.get_ref());
            layer.add_entry(&name, to_raw_value(value), self.origin_at(key.span().start));
        }
    }
}

/// True if a section has a key of this name. The suggestion for the key is then better than one for the section.
fn is_key_of_another_section(key: &str) -> bool {
    settings::all_settings()
        .iter()
        .any(|setting| setting.key() == key)
}

fn to_raw_value(value: &Spanned<DeValue<'_>>) -> RawValue {
    match scalar_text(value.get_ref()) {
        Ok(text) => RawValue::Scalar(text),
        Err("a list") => {
            let items = value.get_ref().as_array().into_iter().flatten();
            items
                .map(|item| scalar_text(item.get_ref()))
                .collect::<Result<_, _>>()
                .map_or(
                    RawValue::Unsupported("a list of lists or tables"),
                    RawValue::List,
                )
        }
        Err(other) => RawValue::Unsupported(other),
    }
}

fn scalar_text(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(i128::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.to_string(), |n| n.to_string())),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Ok(flag.to_string()),
        DeValue::Datetime(_) => Err("a date"),
        DeValue::Array(_) => Err("a list"),
        DeValue::Table(_) => Err("a table"),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let offset = offset.min(text.len());
    text.as_bytes()[..offset]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        parse("parlor.toml", text)
            .problems
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn values_carry_their_line() {
        let layer = parse(
            "parlor.toml",
            "# head\n[server]\nhttp = \"0.0.0.0:80\"\n\n[limits]\nmessages = 0x20\n",
        );
        assert_eq!(layer.problems, []);
        let entries: Vec<_> = layer
            .entries
            .iter()
            .map(|e| (e.setting.name, e.raw.clone(), e.origin.to_string()))
            .collect();
        assert_eq!(
            entries,
            [
                (
                    "limits.messages",
                    RawValue::Scalar("32".into()),
                    "parlor.toml:6".into()
                ),
                (
                    "server.http",
                    RawValue::Scalar("0.0.0.0:80".into()),
                    "parlor.toml:3".into()
                ),
            ]
        );
    }

    #[test]
    fn every_mistake_is_found_in_one_pass_with_its_line_and_a_suggestion() {
        let found = problems(
            "http = \"x\"\n[server]\nhtpp = 1\n[sever]\ndatta = 1\n[redis]\nurl = \"redis://a\"\n",
        );
        assert_eq!(found.len(), 4, "{found:#?}");
        for (place, hint) in [
            ("parlor.toml:1", "did you mean `http` in [server]?"),
            (
                "parlor.toml:3",
                "there is no setting `server.htpp`; did you mean `server.http`?",
            ),
            (
                "parlor.toml:4",
                "there is no section [sever]; did you mean [server]?",
            ),
            (
                "parlor.toml:7",
                "there is no setting `redis.url`; did you mean `store.url`?",
            ),
        ] {
            assert!(
                found
                    .iter()
                    .any(|f| f.starts_with(place) && f.contains(hint)),
                "{place} {hint}: {found:#?}"
            );
        }
    }

    #[test]
    fn a_toml_syntax_error_is_reported_with_its_line() {
        let found = problems("[server]\nhttp = \n");
        assert!(found[0].starts_with("parlor.toml:2: "), "{found:?}");
    }

    #[test]
    fn a_table_in_place_of_a_value_is_passed_on_to_validation() {
        let layer = parse(
            "parlor.toml",
            "[server.http]\nport = 1\n[server]\nallowed_origins = [[1]]\n",
        );
        assert!(
            layer
                .entries
                .iter()
                .any(|e| e.raw == RawValue::Unsupported("a table"))
        );
    }
}
