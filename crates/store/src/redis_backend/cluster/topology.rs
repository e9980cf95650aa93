//! Primaries of a cluster and their slots, as one node reports them.

use redis::{RedisResult, Value};

use super::routing::SLOT_COUNT;
use crate::url::ServerAddress;

/// The primaries with their slots, and all known nodes. Two nodes with the same view give equal values, whatever the
/// order in their replies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    pub(crate) primaries: Vec<ServerAddress>,
    /// Index of the primary of each slot.
    pub(crate) slot_owners: Vec<Option<u16>>,
    pub(crate) known_nodes: Vec<ServerAddress>,
}

impl Topology {
    /// Parses the reply of `CLUSTER SLOTS`. A node without a host name in the reply has the host of `queried_node`.
    pub(crate) fn parse(reply: Value, queried_node: &ServerAddress) -> RedisResult<Self> {
        let mut topology = Self {
            slot_owners: vec![None; SLOT_COUNT],
            ..Self::default()
        };
        let ranges: Vec<Vec<Value>> = redis::from_redis_value(reply)?;
        let mut ordered = Vec::with_capacity(ranges.len());
        for mut range in ranges {
            if range.len() < 3 {
                continue;
            }
            let nodes = range.split_off(2);
            let (from, to): (usize, usize) = redis::from_redis_value(Value::Array(range))?;
            ordered.push((from, to, nodes));
        }
        ordered.sort_by_key(|(from, ..)| *from);
        for (from, to, nodes) in ordered {
            let mut owner = None;
            for node in nodes {
                let Some(address) = parse_node_address(node, queried_node) else {
                    continue;
                };
                let index = owner.is_none().then(|| topology.primary_index(&address));
                owner = owner.or(index);
                if !topology.known_nodes.contains(&address) {
                    topology.known_nodes.push(address);
                }
            }
            if let Some(slots) = topology.slot_owners.get_mut(from..=to.min(SLOT_COUNT - 1)) {
                slots.fill(owner);
            }
        }
        topology.known_nodes.sort_unstable();
        Ok(topology)
    }

    /// Index of the primary that owns a slot.
    pub(crate) fn owner_of(&self, slot: u16) -> Option<usize> {
        let owner = self.slot_owners.get(usize::from(slot)).copied().flatten();
        owner.map(usize::from)
    }

    fn primary_index(&mut self, address: &ServerAddress) -> u16 {
        let known = self.primaries.iter().position(|primary| primary == address);
        let index = known.unwrap_or_else(|| {
            self.primaries.push(address.clone());
            self.primaries.len() - 1
        });
        u16::try_from(index).unwrap_or(u16::MAX)
    }
}

fn parse_node_address(node: Value, queried_node: &ServerAddress) -> Option<ServerAddress> {
    let mut fields = redis::from_redis_value::<Vec<Value>>(node)
        .ok()?
        .into_iter();
    let host: Option<String> = redis::from_redis_value(fields.next()?).ok()?;
    let port: u16 = redis::from_redis_value(fields.next()?).ok()?;
    let host = host
        .filter(|host| !host.is_empty() && host != "?")
        .unwrap_or_else(|| queried_node.host.clone());
    (port > 0).then_some(ServerAddress { host, port })
}

/// Target of a redirection: the node, and whether it needs `ASKING`.
pub(crate) fn parse_redirection(reply: &Value) -> Option<(ServerAddress, bool)> {
    let Value::ServerError(error) = reply else {
        return None;
    };
    let asking = match error.code() {
        "MOVED" => false,
        "ASK" => true,
        _ => return None,
    };
    let node = error.details()?.split(' ').nth(1)?;
    Some((ServerAddress::parse(node, 0).ok()??, asking))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> ServerAddress {
        ServerAddress {
            host: host.to_owned(),
            port,
        }
    }

    fn node(host: &str, port: u16) -> Value {
        Value::Array(vec![
            Value::BulkString(host.into()),
            Value::Int(port.into()),
            Value::BulkString("id".into()),
        ])
    }

    #[test]
    fn slots_go_to_the_first_node_of_their_range() {
        let range = |from, to, nodes: Vec<Value>| {
            Value::Array([vec![Value::Int(from), Value::Int(to)], nodes].concat())
        };
        let parse =
            |ranges| Topology::parse(Value::Array(ranges), &at("asked", 9)).expect("a valid reply");
        let mut ranges = vec![
            range(0, 99, vec![node("a", 1), node("b", 2)]),
            range(200, 16_383, vec![node("", 3)]),
            range(100, 149, vec![node("a", 1)]),
        ];
        let topology = parse(ranges.clone());
        ranges.reverse();
        assert_eq!(parse(ranges), topology, "in another order");
        assert_eq!(topology.primaries, [at("a", 1), at("asked", 3)]);
        assert_eq!(
            topology.known_nodes,
            [at("a", 1), at("asked", 3), at("b", 2)]
        );
        let owner = |slot: usize| topology.slot_owners[slot];
        assert_eq!(
            [owner(0), owner(149), owner(150), owner(200), owner(16_383)],
            [Some(0), Some(0), None, Some(1), Some(1)]
        );
    }
}
