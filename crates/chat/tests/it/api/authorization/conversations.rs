//! Authorization of operations on conversations and their members.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::{
    DeleteConversation, GetConversation, IsMember, JoinConversation, LeaveConversation, PutMember,
    UpdateConversation,
};

use super::{chat, create_group, run_for_error_code, service_caller, user_caller, visitor_caller};

#[tokio::test]
async fn a_visitor_changes_no_conversation() {
    let (_backend, chat) = chat().await;
    create_group(&chat, &user_caller("bob"), "c1", &["alice"]).await;
    let visitor = visitor_caller();
    let id = || "c1".to_owned();
    let refused = Some(ErrorCode::ReadOnlySession);
    let update = UpdateConversation {
        conversation_id: id(),
        title: Some("Mine".into()),
        ..UpdateConversation::default()
    };
    assert_eq!(run_for_error_code(&chat, &visitor, update).await, refused);
    let join = JoinConversation {
        conversation_id: id(),
    };
    assert_eq!(run_for_error_code(&chat, &visitor, join).await, refused);
    let delete = DeleteConversation {
        conversation_id: id(),
    };
    assert_eq!(run_for_error_code(&chat, &visitor, delete).await, refused);
    let put = PutMember {
        conversation_id: id(),
        user_id: "carol".into(),
        ..PutMember::default()
    };
    assert_eq!(run_for_error_code(&chat, &visitor, put).await, refused);
    let get = GetConversation {
        conversation_id: id(),
    };
    assert_eq!(run_for_error_code(&chat, &visitor, get).await, None);
    let leave = LeaveConversation {
        conversation_id: id(),
    };
    assert_eq!(run_for_error_code(&chat, &visitor, leave).await, None);
}

#[tokio::test]
async fn who_is_a_member_is_for_the_user_and_for_members() {
    let (_backend, chat) = chat().await;
    let (alice, bob) = (user_caller("alice"), user_caller("bob"));
    create_group(&chat, &alice, "c1", &[]).await;
    let is = |user: &str| IsMember {
        conversation_id: "c1".into(),
        user_id: user.into(),
    };
    let yes = is("").run(&chat, &alice).await.unwrap();
    assert!(yes.is_member);
    assert!(!is("").run(&chat, &bob).await.unwrap().is_member);
    assert!(!is("bob").run(&chat, &alice).await.unwrap().is_member);
    assert!(
        is("alice")
            .run(&chat, &service_caller())
            .await
            .unwrap()
            .is_member
    );
    assert_eq!(
        run_for_error_code(&chat, &bob, is("alice")).await,
        Some(ErrorCode::NotAMember)
    );
    assert_eq!(
        run_for_error_code(&chat, &service_caller(), is("")).await,
        Some(ErrorCode::UserRequired)
    );
    assert_eq!(
        run_for_error_code(&chat, &alice, is("a:b")).await,
        Some(ErrorCode::InvalidId)
    );
}
