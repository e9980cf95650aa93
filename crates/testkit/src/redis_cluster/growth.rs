//! A cluster that grows.

use redis::{RedisResult, cmd};

use super::RedisCluster;
use crate::{Redis, eventually};

impl RedisCluster {
    /// Starts a primary without slots, waits until all nodes know it, and returns its port.
    pub async fn add_primary(&mut self) -> u16 {
        let added = self.node_options.clone().start().await;
        let port = added.port();
        let mut meet = cmd("CLUSTER");
        meet.arg("MEET").arg("127.0.0.1").arg(port);
        let mut first = self.nodes[0].connection().await;
        meet.exec_async(&mut first).await.unwrap();
        let id = node_id(&added).await;
        self.nodes.push(added);
        for node in &self.nodes {
            let mut connection = node.connection().await;
            eventually(
                "all nodes know the primary",
                async || -> RedisResult<bool> {
                    let mut nodes = cmd("CLUSTER");
                    let known: String = nodes.arg("NODES").query_async(&mut connection).await?;
                    let line = known.lines().find(|line| line.starts_with(&id));
                    Ok(line.is_some_and(|line| {
                        line.contains(" connected") && !line.contains("handshake")
                    }))
                },
            )
            .await;
        }
        port
    }

    /// Gives an empty slot to the primary on this port.
    pub async fn move_empty_slot(&mut self, slot: u16, to: u16) {
        let id = node_id(self.node(to)).await;
        let mut assign = cmd("CLUSTER");
        assign.arg("SETSLOT").arg(slot).arg("NODE").arg(id);
        // The new owner first: a node that gave the slot away would otherwise redirect to a node that does not serve it.
        let mut owner = self.node(to).connection().await;
        assign.exec_async(&mut owner).await.unwrap();
        // The highest epoch wins over the earlier owner.
        let mut raise = cmd("CLUSTER");
        raise.arg("BUMPEPOCH").exec_async(&mut owner).await.unwrap();
        for node in self.running_nodes() {
            // A replica does not accept the assignment; it follows its primary.
            let _ = assign.exec_async(&mut node.connection().await).await;
        }
        for node in self.running_nodes() {
            let mut connection = node.connection().await;
            eventually("the cluster is up again", async || -> RedisResult<bool> {
                let info: String = cmd("CLUSTER")
                    .arg("INFO")
                    .query_async(&mut connection)
                    .await?;
                Ok(info.contains("cluster_state:ok"))
            })
            .await;
        }
    }
}

async fn node_id(node: &Redis) -> String {
    let mut connection = node.connection().await;
    let mut id = cmd("CLUSTER");
    id.arg("MYID").query_async(&mut connection).await.unwrap()
}
