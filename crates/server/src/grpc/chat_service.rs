//! `parlor.v1.ChatService`: each method runs an operation for the user that the request names.

use parlor_chat::conversations::{self, IsMember};
use parlor_chat::messages::{self, ListMessages, MessageList, SendMessage, SentMessage};
use parlor_chat::unread::{GetUnread, MarkRead, UnreadCount, UnreadSummary};
use serde_json::Value;
use tonic::{Request, Response, Status};

use super::GrpcService;
use super::proto::v1::chat_service_server::ChatService;
use super::proto::v1::get_unread_response::Conversation;
use super::proto::v1::{
    GetUnreadRequest, GetUnreadResponse, IsMemberRequest, IsMemberResponse, ListMessagesRequest,
    ListMessagesResponse, MarkReadRequest, MarkReadResponse, Message, SendMessageRequest,
    SendMessageResponse,
};
use super::request::{caller_and_message, run_operation, run_operation_as};
use crate::api_error::ApiError;

#[tonic::async_trait]
impl ChatService for GrpcService {
    async fn send_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<SendMessageResponse>, Status> {
        let (caller, message) = caller_and_message(request);
        let operation = SendMessage {
            conversation_id: message.conversation_id,
            content: message.content,
            metadata: parse_metadata(message.metadata_json.as_deref())?,
            client_id: message.client_id,
        };
        run_operation_as(&self.0, caller, &message.user_id, operation).await
    }

    async fn list_messages(
        &self,
        request: Request<ListMessagesRequest>,
    ) -> Result<Response<ListMessagesResponse>, Status> {
        let (caller, message) = caller_and_message(request);
        let operation = ListMessages {
            conversation_id: message.conversation_id,
            before: message.before,
            after: message.after,
            limit: message.limit,
        };
        run_operation_as(&self.0, caller, &message.user_id, operation).await
    }

    async fn mark_read(
        &self,
        request: Request<MarkReadRequest>,
    ) -> Result<Response<MarkReadResponse>, Status> {
        let (caller, message) = caller_and_message(request);
        let operation = MarkRead {
            conversation_id: message.conversation_id,
            seq: message.seq,
        };
        run_operation_as(&self.0, caller, &message.user_id, operation).await
    }

    async fn get_unread(
        &self,
        request: Request<GetUnreadRequest>,
    ) -> Result<Response<GetUnreadResponse>, Status> {
        let (caller, message) = caller_and_message(request);
        run_operation_as(&self.0, caller, &message.user_id, GetUnread {}).await
    }

    async fn is_member(
        &self,
        request: Request<IsMemberRequest>,
    ) -> Result<Response<IsMemberResponse>, Status> {
        let (caller, message) = caller_and_message(request);
        // Runs as the caller: members, admins and services may also ask about another user.
        let operation = IsMember {
            conversation_id: message.conversation_id,
            user_id: message.user_id,
        };
        run_operation(&self.0, &caller, operation).await
    }
}

fn parse_metadata(json: Option<&str>) -> Result<Option<Value>, ApiError> {
    let invalid = |error| {
        let detail = format!("`metadata_json` is not JSON: {error}");
        ApiError::invalid_request(detail)
    };
    json.map(serde_json::from_str).transpose().map_err(invalid)
}

impl From<messages::Message> for Message {
    fn from(message: messages::Message) -> Self {
        Self {
            id: message.id,
            conversation_id: message.conversation_id.as_str().to_owned(),
            seq: message.seq,
            sender_id: message.sender_id.as_str().to_owned(),
            content: message.content,
            metadata_json: message.metadata.map(|metadata| metadata.to_string()),
            client_id: message.client_id,
            created_at: message.created_at,
            edited_at: message.edited_at,
            deleted_at: message.deleted_at,
            rev: message.rev,
        }
    }
}

impl From<SentMessage> for SendMessageResponse {
    fn from(sent: SentMessage) -> Self {
        Self {
            message: Some(sent.message.into()),
            repeated_send: sent.is_duplicate,
        }
    }
}

impl From<MessageList> for ListMessagesResponse {
    fn from(history: MessageList) -> Self {
        Self {
            messages: history.messages.into_iter().map(Message::from).collect(),
            has_more: history.has_more,
        }
    }
}

impl From<UnreadCount> for MarkReadResponse {
    fn from(count: UnreadCount) -> Self {
        Self {
            unread: count.unread,
            total: count.total,
        }
    }
}

impl From<UnreadSummary> for GetUnreadResponse {
    fn from(summary: UnreadSummary) -> Self {
        let conversations = summary.conversations.into_iter();
        Self {
            total: summary.total,
            mentions: summary.mentions,
            conversations: conversations
                .map(|it| Conversation {
                    conversation_id: it.conversation_id.as_str().to_owned(),
                    count: it.count,
                    mentions: it.mentions,
                    muted: it.muted,
                })
                .collect(),
        }
    }
}

impl From<conversations::IsMemberReply> for IsMemberResponse {
    fn from(membership: conversations::IsMemberReply) -> Self {
        Self {
            is_member: membership.is_member,
        }
    }
}
