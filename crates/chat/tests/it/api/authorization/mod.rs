//! Authorization, tested with the operations themselves, because no gateway decides about it.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

mod conversations;
mod limits;
mod messages;
mod presence;

use std::collections::HashSet;

use parlor_chat::Chat;
use parlor_chat::ChatOptions;
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::{COMMON_ERROR_CODES, Operation, all_operations};
use parlor_chat::conversations::{ConversationKind, CreateConversation};
use parlor_chat::ids::NodeId;
use parlor_chat::keys::{KeySettings, Preset};
use parlor_chat::presence::{
    GetPresence, Heartbeat, ListDevices, PresenceStatus, QueryPresence, RemoveDevice, SetPresence,
    WatchPresence,
};
use parlor_chat::typing::SetTyping;

use crate::support::backend::TestBackend;
use crate::support::{admin_caller, service_caller, user_caller};

/// A chat on the embedded store, with the environment that contains its store and database.
async fn chat() -> (TestBackend, Chat) {
    let backend = TestBackend::embedded().await;
    let context = backend.context(KeySettings::from_preset(Preset::Parlor));
    let node = NodeId::new("n1").unwrap();
    let database = backend.database().await;
    let chat = Chat::new(context, database, node, &ChatOptions::default());
    chat.start().await.unwrap();
    (backend, chat)
}

fn visitor_caller() -> Caller {
    Caller {
        anonymous: true,
        ..user_caller("alice")
    }
}

/// Error code of an operation; `None` if it succeeds. The code must be declared.
async fn run_for_error_code<O: Operation>(
    chat: &Chat,
    caller: &Caller,
    request: O,
) -> Option<ErrorCode> {
    let code = request.run(chat, caller).await.err()?.code();
    let declared = O::INFO.codes.iter().chain(COMMON_ERROR_CODES);
    assert!(
        declared.into_iter().any(|it| *it == code),
        "{} returns {code}, which it does not declare",
        O::INFO.name
    );
    Some(code)
}

fn set(user: &str, status: PresenceStatus) -> SetPresence {
    SetPresence {
        user_id: user.into(),
        status,
        device_id: None,
    }
}

fn typing(conversation: &str) -> SetTyping {
    SetTyping {
        conversation_id: conversation.into(),
        typing: true,
        username: None,
    }
}

/// Creates a group as this caller.
async fn create_group(chat: &Chat, caller: &Caller, id: &str, members: &[&str]) {
    let members = members.iter().map(ToString::to_string).collect();
    let create = CreateConversation {
        id: Some(id.into()),
        kind: ConversationKind::Group,
        title: None,
        members,
        open: Some(true),
        history: None,
        priority: None,
        idempotency_key: None,
    };
    assert_eq!(run_for_error_code(chat, caller, create).await, None);
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let names: HashSet<_> = all_operations().map(|info| info.name).collect();
    assert_eq!(names.len(), all_operations().count());
    for info in all_operations() {
        assert!(info.name.split_once('.').is_some(), "{}", info.name);
        assert!(!info.summary.ends_with('.'), "{}", info.name);
    }
}

#[tokio::test]
async fn a_wrong_id_is_called_so_by_every_operation() {
    let (_backend, chat) = chat().await;
    let root = admin_caller("root");
    let service = service_caller();
    let wrong = || "a:b".to_owned();
    let get = GetPresence { user_id: wrong() };
    let list = ListDevices { user_id: wrong() };
    let remove = RemoveDevice {
        user_id: "root".into(),
        device_id: wrong(),
    };
    let beat = Heartbeat {
        user_id: String::new(),
        device_id: Some(wrong()),
    };
    let query = QueryPresence {
        user_ids: vec![wrong()],
    };
    let watch = WatchPresence {
        user_ids: vec![wrong()],
    };
    let codes = [
        run_for_error_code(&chat, &root, get).await,
        run_for_error_code(&chat, &root, list).await,
        run_for_error_code(&chat, &root, remove).await,
        run_for_error_code(&chat, &root, beat).await,
        run_for_error_code(&chat, &root, query).await,
        run_for_error_code(&chat, &root, watch).await,
        run_for_error_code(&chat, &root, set("a:b", PresenceStatus::Online)).await,
        run_for_error_code(
            &chat,
            &service.clone().on_behalf_of("u").unwrap(),
            typing("total"),
        )
        .await,
    ];
    assert_eq!(codes, [Some(ErrorCode::InvalidId); 8]);
}
