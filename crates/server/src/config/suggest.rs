//! Suggestions ("did you mean"): the known name that is most similar to a mistyped one.

/// Minimum similarity of a suggestion (Jaro-Winkler, 1 = equal).
const MIN_SIMILARITY: f64 = 0.75;
/// Minimum similarity of a suggestion among the keys of one section, which are few.
const MIN_KEY_SIMILARITY: f64 = 0.65;

/// The most similar known name, if it is similar enough.
pub fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    best_match(MIN_SIMILARITY, typed, known)
}

fn best_match<'a>(
    alike: f64,
    typed: &str,
    known: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    known
        .map(|name| (strsim::jaro_winkler(&typed, name), name))
        .filter(|(score, _)| *score >= alike)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The most similar known setting: first a similar key in the same section, then the same key in another section.
pub fn nearest_setting<'a>(
    typed: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let (section, key) = typed.rsplit_once('.').unwrap_or(("", typed));
    let same_section = known
        .clone()
        .filter(|name| name.rsplit_once('.').is_some_and(|(s, _)| s == section));
    let known_section = same_section.clone().next().is_some();
    let in_section = nearest_key(key, same_section);
    in_section
        .or_else(|| {
            known
                .clone()
                .find(|name| name.rsplit_once('.').is_some_and(|(_, k)| k == key))
        })
        // In a known section all names are similar because they share the section.
        .or_else(|| nearest(typed, known).filter(|_| !known_section))
}

fn nearest_key<'a>(key: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let keys = names
        .clone()
        .filter_map(|name| name.rsplit_once('.').map(|(_, k)| k));
    let best = best_match(MIN_KEY_SIMILARITY, key, keys)?;
    names
        .into_iter()
        .find(|name| name.rsplit_once('.').is_some_and(|(_, k)| k == best))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 5] = [
        "server.http",
        "server.grpc",
        "store.url",
        "ttl.presence",
        "limits.messages",
    ];

    #[test]
    fn slips_and_wrong_sections_are_understood() {
        for (typed, meant) in [
            ("server.htpp", Some("server.http")),
            ("sever.http", Some("server.http")),
            ("redis.url", Some("store.url")),
            ("ttl.presense", Some("ttl.presence")),
            ("limit.message", Some("limits.messages")),
            ("colour.background", None),
            ("ttl.foo", None),
            ("server.htp", Some("server.http")),
        ] {
            assert_eq!(
                nearest_setting(typed, KNOWN.iter().copied()),
                meant,
                "{typed}"
            );
        }
    }
}
