//! Merges the findings of several servers: the primaries of a Cluster are configured independently.
//!
//! Invariant: a finding that all servers share is reported once; any other finding names its servers.

use super::Finding;

/// Merges equal findings. Each entry has the address of a server and its findings.
pub fn merge_findings(found: Vec<(String, Vec<Finding>)>) -> Vec<Finding> {
    let servers = found.len();
    let mut groups: Vec<(Finding, Vec<String>)> = Vec::new();
    for (server, findings) in found {
        for finding in findings {
            match groups.iter_mut().find(|(other, _)| *other == finding) {
                Some((_, of)) => of.push(server.clone()),
                None => groups.push((finding, vec![server.clone()])),
            }
        }
    }
    if servers > 1 {
        for (finding, of) in &mut groups {
            let label = match of.len() {
                all if all == servers => format!("all {servers} primaries"),
                _ => of.join(", "),
            };
            finding.message = format!("{label}: {}", finding.message);
        }
    }
    // By check, in the order of the first server. The sort is stable, so findings of one check keep their order.
    let order: Vec<&str> = groups.iter().map(|(finding, _)| finding.check).collect();
    let place = |check: &str| order.iter().position(|other| *other == check);
    groups.sort_by_key(|(finding, _)| place(finding.check));
    groups.into_iter().map(|(finding, _)| finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_findings_are_merged_and_different_ones_name_their_server() {
        let same = || Finding::ok("version", "7.0");
        let found = vec![
            ("a:1".into(), vec![same(), Finding::ok("memory", "none")]),
            (
                "b:2".into(),
                vec![same(), Finding::warn("memory", "lru", "x")],
            ),
            ("c:3".into(), vec![same(), Finding::ok("memory", "none")]),
        ];
        let messages: Vec<String> = merge_findings(found)
            .into_iter()
            .map(|one| one.message)
            .collect();
        assert_eq!(
            messages,
            ["all 3 primaries: 7.0", "a:1, c:3: none", "b:2: lru"]
        );
    }

    #[test]
    fn findings_of_a_single_server_have_no_server_prefix() {
        let found = vec![("a:1".into(), vec![Finding::ok("version", "7.0")])];
        assert_eq!(merge_findings(found), [Finding::ok("version", "7.0")]);
    }
}
