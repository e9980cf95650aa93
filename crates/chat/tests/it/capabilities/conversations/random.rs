//! Random histories compared with a simple model: members, roles, count, version, and the answer of every node.

use std::collections::BTreeMap;

use parlor_chat::api::caller::Caller;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::conversations::{
    CreateConversation, GetConversation, JoinConversation, LeaveConversation, PutMember,
    RemoveMember,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::fixture::{
    ConversationsFixture, error_code_of, run_operation, service_caller, user_caller,
};
use super::on_every_engine;

on_every_engine! {
    random_histories_agree_with_the_model;
}

const USERS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
const ROLES: [&str; 3] = ["owner", "admin", "member"];
const STEPS: usize = 150;

/// Role and join order of each user.
#[derive(Default)]
struct Model {
    members: BTreeMap<&'static str, (&'static str, usize)>,
    came: usize,
    version: u64,
}

impl Model {
    fn role(&self, who: &str) -> Option<&'static str> {
        self.members.get(who).map(|it| it.0)
    }

    fn add(&mut self, who: &'static str, role: &'static str) {
        self.came += 1;
        self.version += 1;
        let role = if self.members.is_empty() {
            "owner"
        } else {
            role
        };
        self.members.insert(who, (role, self.came));
    }

    fn remove(&mut self, who: &str) {
        if self.members.remove(who).is_none() {
            return;
        }
        self.version += 1;
        if self.members.values().all(|it| it.0 != "owner") {
            let heir = self.members.values_mut();
            if let Some(heir) = heir.min_by_key(|it| (it.0 != "admin", it.1)) {
                heir.0 = "owner";
            }
        }
    }

    fn leave(&mut self, who: &str) -> Option<ErrorCode> {
        self.remove(who);
        None
    }

    fn join(&mut self, who: &'static str) -> Option<ErrorCode> {
        if self.role(who).is_none() {
            self.add(who, "member");
        }
        None
    }

    fn expect_remove(&mut self, by: Option<&str>, who: &str) -> Option<ErrorCode> {
        if let Some(by) = by.filter(|by| *by != who) {
            let Some(own) = self.role(by) else {
                return Some(ErrorCode::NotAMember);
            };
            if own == "member" || (own == "admin" && self.role(who) == Some("owner")) {
                return Some(ErrorCode::Forbidden);
            }
        }
        self.remove(who);
        None
    }

    fn expect_put(
        &mut self,
        by: Option<&str>,
        who: &'static str,
        role: &'static str,
    ) -> Option<ErrorCode> {
        let now = self.role(who);
        if let Some(by) = by {
            let Some(own) = self.role(by) else {
                return Some(ErrorCode::NotAMember);
            };
            let concerns_owner = now == Some("owner") || role == "owner";
            if now != Some(role) && (own == "member" || (own == "admin" && concerns_owner)) {
                return Some(ErrorCode::Forbidden);
            }
        }
        match now {
            None => self.add(who, role),
            Some(now) if now == role => {}
            Some(now) => {
                let owners = self.members.values().filter(|it| it.0 == "owner").count();
                if now == "owner" && owners == 1 {
                    return Some(ErrorCode::InvalidRequest);
                }
                self.members.get_mut(who).unwrap().0 = role;
                self.version += 1;
            }
        }
        None
    }
}

pub async fn random_histories_agree_with_the_model(fixture: ConversationsFixture) {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut model = Model::default();
    let group = json!({ "id": "c1", "kind": "group", "open": true });
    run_operation::<CreateConversation>(&fixture.nodes[0], &user_caller("alice"), group)
        .await
        .unwrap();
    model.add("alice", "owner");
    for step in 0..STEPS {
        let node = &fixture.nodes[random.random_range(0..3)];
        let by = USERS[random.random_range(0..5)];
        let who = USERS[random.random_range(0..5)];
        let role = ROLES[random.random_range(0..3)];
        let serving = random.random_range(0..4) == 0;
        let (by, caller): (_, Caller) = match serving {
            true => (None, service_caller()),
            false => (Some(by), user_caller(by)),
        };
        let mut request = json!({ "conversationId": "c1", "userId": who });
        let (done, expected) = match random.random_range(0..4) {
            0 => (
                error_code_of::<JoinConversation>(node, &user_caller(who), request).await,
                model.join(who),
            ),
            1 => (
                error_code_of::<LeaveConversation>(node, &user_caller(who), request).await,
                model.leave(who),
            ),
            2 => (
                error_code_of::<RemoveMember>(node, &caller, request).await,
                model.expect_remove(by, who),
            ),
            _ => {
                request["role"] = role.into();
                let expected = model.expect_put(by, who, role);
                (
                    error_code_of::<PutMember>(node, &caller, request).await,
                    expected,
                )
            }
        };
        assert_eq!(done, expected, "step {step}: {by:?} {who} {role}");
        let members = model
            .members
            .iter()
            .map(|(who, it)| format!("{who} {}", it.0));
        assert_eq!(
            fixture.members("c1").await,
            members.collect::<Vec<_>>(),
            "step {step}"
        );
        let who = USERS[step % 5];
        for nth in 0..3 {
            assert_eq!(
                fixture.is_member_on_node(nth, "c1", who).await,
                model.role(who).is_some(),
                "step {step}"
            );
        }
    }
    let head = json!({ "conversationId": "c1" });
    let head = run_operation::<GetConversation>(&fixture.nodes[0], &service_caller(), head)
        .await
        .unwrap();
    assert_eq!(head.member_count, model.members.len() as u64);
    assert_eq!(fixture.version("c1").await, model.version);
}
