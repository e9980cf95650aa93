//! Route table: the operation of each method and path.
//!
//! Invariants:
//! 1. Every operation is in [`ROUTES`], unless its capability states why this interface does not offer it
//!    ([`OPERATION_GROUPS`](parlor_chat::api::operation::OPERATION_GROUPS)).

use axum::http::Method;
use axum::routing::MethodRouter;
use parlor_chat::api::operation::{AuthRequirement, CreatesResource, Operation, OperationInfo};
use parlor_chat::conversations::{
    CreateConversation, DeleteConversation, GetConversation, GetMember, JoinConversation,
    LeaveConversation, ListConversations, ListMembers, PutMember, RemoveMember, UpdateConversation,
};
use parlor_chat::limits::CheckLimit;
use parlor_chat::messages::{DeleteMessage, EditMessage, GetMessage, ListMessages, SendMessage};
use parlor_chat::presence::{
    CountPresence, GetPresence, Heartbeat, ListDevices, QueryPresence, RemoveDevice, SetPresence,
};
use parlor_chat::sessions::{
    BeginSession, BeginVisitorSession, EndSession, EndUserSession, GetSession, GetUserSession,
    UpdateUserSession,
};
use parlor_chat::typing::{ListTyping, SetTyping};
use parlor_chat::unread::{GetUnread, ListReceipts, MarkDelivered, MarkRead, MarkUnread};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::operation_handler::operation_handler;
use super::operation_schema::OperationSchema;
use crate::app_state::AppState;

/// All routes of operations, in the order of the reference.
pub static ROUTES: &[Route] = &[
    post::<BeginSession>("/v1/sessions"),
    post::<BeginVisitorSession>("/v1/sessions/anonymous"),
    get::<GetSession>("/v1/sessions/me"),
    delete::<EndSession>("/v1/sessions/me"),
    get::<GetUserSession>("/v1/admin/sessions/{user}"),
    patch::<UpdateUserSession>("/v1/admin/sessions/{user}"),
    delete::<EndUserSession>("/v1/admin/sessions/{user}"),
    get::<GetPresence>("/v1/users/{user}/presence"),
    put::<SetPresence>("/v1/users/{user}/presence"),
    post::<Heartbeat>("/v1/users/{user}/presence/heartbeat"),
    get::<ListDevices>("/v1/users/{user}/presence/devices"),
    delete::<RemoveDevice>("/v1/users/{user}/presence/devices/{device}"),
    post::<QueryPresence>("/v1/presence/query"),
    get::<CountPresence>("/v1/presence/count"),
    post::<CreateConversation>("/v1/conversations"),
    get::<ListConversations>("/v1/conversations"),
    get::<GetConversation>("/v1/conversations/{id}"),
    patch::<UpdateConversation>("/v1/conversations/{id}"),
    delete::<DeleteConversation>("/v1/conversations/{id}"),
    post::<JoinConversation>("/v1/conversations/{id}/join"),
    post::<LeaveConversation>("/v1/conversations/{id}/leave"),
    get::<ListMembers>("/v1/conversations/{id}/members"),
    get::<GetMember>("/v1/conversations/{id}/members/{user}"),
    put::<PutMember>("/v1/conversations/{id}/members/{user}"),
    delete::<RemoveMember>("/v1/conversations/{id}/members/{user}"),
    get::<ListMessages>("/v1/conversations/{id}/messages"),
    post::<SendMessage>("/v1/conversations/{id}/messages"),
    get::<GetMessage>("/v1/conversations/{id}/messages/{seq}"),
    patch::<EditMessage>("/v1/conversations/{id}/messages/{seq}"),
    delete::<DeleteMessage>("/v1/conversations/{id}/messages/{seq}"),
    get::<ListTyping>("/v1/conversations/{id}/typing"),
    put::<SetTyping>("/v1/conversations/{id}/typing"),
    post::<MarkRead>("/v1/conversations/{id}/read"),
    post::<MarkUnread>("/v1/conversations/{id}/unread"),
    post::<MarkDelivered>("/v1/conversations/{id}/delivered"),
    get::<ListReceipts>("/v1/conversations/{id}/receipts"),
    get::<GetUnread>("/v1/unread"),
    post::<CheckLimit>("/v1/limits/check"),
];

/// Path parameters and the request fields they set.
pub static PATH_PARAMETERS: &[(&str, &str)] = &[
    ("user", "userId"),
    ("id", "conversationId"),
    ("device", "deviceId"),
    ("seq", "seq"),
];

/// Method and path of an operation.
pub struct Route {
    /// HTTP method.
    pub method: Method,
    /// Path, with its parameters in braces.
    pub path: &'static str,
    /// Operation.
    pub info: OperationInfo,
    /// Credentials that the operation requires.
    pub auth: AuthRequirement,
    /// Whether the response is 201 for a new resource.
    pub creates_resource: CreatesResource,
    /// Schemas of the request and the reply.
    pub schema: fn() -> OperationSchema,
    pub(super) handler: fn(&'static Route) -> MethodRouter<AppState>,
}

impl Route {
    /// True if the request fields are in the body; otherwise they are in the query.
    pub fn has_body(&self) -> bool {
        [Method::PUT, Method::POST, Method::PATCH].contains(&self.method)
    }

    /// Path parameters, each with the request field that it sets.
    pub fn path_parameters(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let named = |name| (name, request_field(name));
        let segments = self.path.split('/');
        segments
            .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
            .map(named)
    }
}

/// Request field that a path parameter sets.
pub(super) fn request_field(parameter: &str) -> &str {
    let known = PATH_PARAMETERS.iter().find(|(name, _)| *name == parameter);
    known.map_or(parameter, |(_, field)| field)
}

/// Operation that HTTP can offer.
pub trait HttpOperation:
    Operation<Reply: Serialize + ToSchema> + DeserializeOwned + ToSchema + 'static
{
}

impl<O> HttpOperation for O where
    O: Operation<Reply: Serialize + ToSchema> + DeserializeOwned + ToSchema + 'static
{
}

const fn route<O: HttpOperation>(method: Method, path: &'static str) -> Route {
    Route {
        method,
        path,
        info: O::INFO,
        auth: O::AUTH,
        creates_resource: O::CREATES,
        schema: OperationSchema::of::<O>,
        handler: operation_handler::<O>,
    }
}

const fn get<O: HttpOperation>(path: &'static str) -> Route {
    route::<O>(Method::GET, path)
}

const fn put<O: HttpOperation>(path: &'static str) -> Route {
    route::<O>(Method::PUT, path)
}

/// Route of a POST request.
pub const fn post<O: HttpOperation>(path: &'static str) -> Route {
    route::<O>(Method::POST, path)
}

/// Route of a PATCH request.
pub const fn patch<O: HttpOperation>(path: &'static str) -> Route {
    route::<O>(Method::PATCH, path)
}

const fn delete<O: HttpOperation>(path: &'static str) -> Route {
    route::<O>(Method::DELETE, path)
}
