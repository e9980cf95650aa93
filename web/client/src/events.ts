// Generated from the event tables; `make docs` rewrites it.

/** Returns what the caller missed in a conversation. For members of the conversation. Call this operation after subscribing to the conversation, so that no message is missed between both. */
export interface CatchUpConversation {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** `seq` of the last message that the caller has. If it is absent, no missed messages are returned. */
  afterSeq?: number | null;
  /** Last `rev` that the caller has. If it is absent, no changes of older messages are returned. */
  afterRev?: number | null;
}

/** Error of a rejected handshake, sent with `connect_error`. */
export interface ConnectErrorBody {
  /** Description for people; it may change. */
  message: string;
  /** Stable error code. */
  code: string;
  /** The same error again: Socket.IO clients expose only `message` and this field, as `error.data`. */
  data: ErrorBody;
}

/** A conversation. */
export interface Conversation {
  /** Id of the conversation. */
  id: ConversationId;
  /** Kind of the conversation. */
  kind: ConversationKind;
  /** Title of the conversation; absent if it has none. */
  title?: string | null;
  /** True if every user may join. */
  open: boolean;
  /** Whether members see messages that were sent before they joined. */
  history: HistoryVisibility;
  /** Priority of a support conversation; absent for other kinds. */
  priority?: SupportPriority | null;
  /** Id of the user who created the conversation; absent if a service created it without acting for a user. */
  createdBy?: UserId | null;
  /** Time of the creation, ISO 8601. */
  createdAt: string;
  /** `seq` of the newest message; 0 if there is none. */
  lastSeq: number;
  /** Time of the newest message, or of the creation if there is none, ISO 8601. */
  lastAt: string;
  /** Revision; increases with every message, edit and delete. */
  rev: number;
  /** Number of members. */
  memberCount: number;
  /** Version of the members; increases with every change of members. Load the members again if it differs from the version that you know. */
  membersVersion: number;
  /** Version of the conversation; increases with every change of `title`, `open`, `history` or `priority`. Of two states of a conversation, the one with the higher `version` is newer. */
  version: number;
}

/** A conversation id */
export type ConversationId = string;

/** Kind of a conversation. */
export type ConversationKind = "direct" | "group" | "support";

/** Reference to a conversation. */
export interface ConversationRef {
  /** Id of the conversation. */
  conversationId: ConversationId;
}

/** A conversation of the handshake's `resume` is joined. Missed messages and changes were sent before this event, as `message:new`, `message:edited` and `message:deleted`. */
export interface ConversationResumed {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** `seq` of the last message of the conversation; live events start right after it. */
  lastSeq: number;
  /** `rev` up to which changes were sent. */
  rev: number;
  /** Number of unread messages of the user in the conversation. */
  unread: number;
  /** Users who are typing in the conversation. */
  typing: TypingUser[];
  /** Version of the members. Load the members again if it differs from the version that you know. */
  membersVersion: number;
  /** The conversation as it is now. */
  conversation: Conversation;
  /** True if the client missed more than was sent: read further messages with `history`, and further changes by joining with this `rev` as `afterRev`. */
  hasMore: boolean;
}

/** Deletes the text and the metadata of a message; the message keeps its `seq`. Callers who may edit a message may delete it. Repeating a delete has no effect. */
export interface DeleteMessage {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** `seq` of the message. */
  seq: number;
}

/** A device id */
export type DeviceId = string;

/** Replaces the text or the metadata of a message. The sender may do this within the edit window (by default 5 minutes after sending). Owners and admins of the conversation, admins and services may do it at any time. */
export interface EditMessage {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** `seq` of the message. */
  seq: number;
  /** New text. If it is absent, the text stays unchanged. */
  content?: string | null;
  /** New metadata. If it is absent, the metadata stays unchanged. An edit does not change which users count as mentioned. */
  metadata?: Record<string, unknown> | null;
}

/** Empty object. */
export type EmptyObject = Record<string, unknown>;

/** Acknowledgement of a rejected event. */
export interface ErrorAck {
  /** Always false. */
  ok: boolean;
  /** Why the event was rejected. */
  error: ErrorBody;
}

/** Error of a rejected request. */
export interface ErrorBody {
  /** Stable error code; docs/errors.md lists all codes. */
  code: string;
  /** Description for people; it may change. */
  message: string;
  /** Milliseconds to wait before a retry; absent if unknown. */
  retryAfterMs?: number | null;
}

/** Body of the handshake, sent as Socket.IO's `auth`. */
export interface Handshake {
  /** Bearer token, without the word `Bearer`. */
  token?: string;
  /** Id of the device; use the same id for every connection of this device. Default: the socket id. */
  deviceId?: DeviceId | null;
  /** With a service token: id of the user that the service acts for. Other callers may only name themselves. */
  userId?: UserId | null;
  /** Conversations to join, with the position that the client has reached in each. Missed messages and changes are sent before live events. */
  resume?: Record<string, ResumePosition>;
}

/** When the next heartbeat is expected. */
export interface HeartbeatReply {
  /** Milliseconds until the next heartbeat is expected. */
  nextInMs: number;
}

/** Whether members see messages that were sent before they joined. */
export type HistoryVisibility = "all" | "since_join";

/** Missed messages of a member, and the state of the conversation. */
export interface JoinReply {
  /** Messages after `afterSeq`, at most 500, and older messages that were changed after `afterRev`, at most 500; ordered by `seq`. */
  missed: Message[];
  /** `seq` of the newest message; 0 if there is none. */
  lastSeq: number;
  /** Revision up to which `missed` contains all changes. Send it as `afterRev` in the next request. */
  rev: number;
  /** Number of unread messages of the caller in this conversation. */
  unread: number;
  /** Users who are typing. */
  typing: TypingUser[];
  /** Version of the members. Load the members again if it differs from the version that you know. */
  membersVersion: number;
  /** The conversation as it is now. */
  conversation: Conversation;
  /** True if the caller missed more than `missed` contains. Load further messages with `history`, and further changes with this `rev` as `afterRev`. */
  hasMore: boolean;
}

/** Last message of a conversation. */
export interface LastSeqUpdate {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** `seq` of the last message. */
  lastSeq: number;
}

/** Lists messages of a conversation, oldest first: the newest ones, or those right before or right after a `seq`. For members of the conversation. */
export interface ListMessages {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** Returns the messages right before this `seq`. Cannot be combined with `after`. */
  before?: number | null;
  /** Returns the messages right after this `seq`. Cannot be combined with `before`. */
  after?: number | null;
  /** Maximum number of messages, from 1 to 100. Default: 50. */
  limit?: number | null;
}

/** Marks the messages of a conversation as delivered to the caller, up to a message. */
export interface MarkDelivered {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** `seq` of the last message that was delivered. Default: the last message of the conversation. */
  seq?: number | null;
}

/** Marks the messages of a conversation as read by the caller, up to a message. */
export interface MarkRead {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** `seq` of the last message that was read. Default: the last message of the conversation. */
  seq?: number | null;
}

/** Marks the messages of a conversation as unread for the caller, from a message on. Read receipts do not change. */
export interface MarkUnread {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** `seq` of the first message that becomes unread. */
  seq: number;
}

/** Role of a member. */
export type MemberRole = "owner" | "admin" | "member";

/** A member of a conversation was added, removed or got another role. */
export interface MemberUpdate {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** Id of the user. */
  userId: UserId;
  /** Role of the member; absent if the user was removed. */
  role?: MemberRole | null;
  /** Version of the members after the change. If you know a version more than one below it, you missed a change: load the members again. */
  membersVersion: number;
}

/** A message as clients receive it. */
export interface Message {
  /** Id of the message, a UUIDv7. */
  id: string;
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** Number of the message in the conversation: 1, 2, 3, without gaps. */
  seq: number;
  /** Id of the user who sent the message. */
  senderId: UserId;
  /** Text of the message; empty if the message was deleted. */
  content: string;
  /** Additional data from the sender; absent if there is none or the message was deleted. */
  metadata?: Record<string, unknown> | null;
  /** Id that the client chose when it sent the message; absent if it chose none. */
  clientId?: string | null;
  /** Time of sending, ISO 8601. */
  createdAt: string;
  /** Time of the last edit, ISO 8601; absent if the message was never edited. */
  editedAt?: string | null;
  /** Time of the deletion, ISO 8601; absent if the message was not deleted. */
  deletedAt?: string | null;
  /** Revision of the conversation at which the message was last changed. Of two versions of a message, the one with the higher `rev` is newer. */
  rev: number;
}

/** A page of messages, oldest first. */
export interface MessageList {
  /** Messages of the page. */
  messages: Message[];
  /** True if there are more messages in the requested direction. */
  hasMore: boolean;
}

/** Reply with the message after the change. */
export interface MessageReply {
  /** The message. */
  message: Message;
}

/** Status of a user. */
export type PresenceStatus = "online" | "away" | "busy" | "offline";

/** Position up to which the messages of a conversation were delivered to a member, or read by a member. */
export interface ReceiptUpdate {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** Id of the member. */
  userId: UserId;
  /** `seq` of the last delivered or read message. */
  seq: number;
}

/** New token for the connection. */
export interface RefreshSession {
  /** Bearer token of the same user, without the word `Bearer`. */
  token: string;
}

/** Position of a client in a conversation. */
export type ResumePosition = number | { seq: number; rev: number };

/** Sends a message to a conversation. The reply means that the message is committed to the database. */
export interface SendMessage {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** Text of the message, by default at most 8192 bytes. It may be empty if there is `metadata`. */
  content?: string;
  /** Additional data, by default at most 4096 bytes of JSON. The field `mentions` is a list of up to 50 user ids. */
  metadata?: Record<string, unknown> | null;
  /** Id that the client chooses for this message, 1 to 128 bytes. If the sender has already used it in this conversation, nothing is sent and the reply is the first message. */
  clientId?: string | null;
}

/** Reason of `session:closed`. */
export type SessionCloseReason = "blocked" | "logout" | "replaced" | "shutdown" | "expired";

/** The server closes the connection right after this event. */
export interface SessionClosed {
  /** Why the server closes the connection. */
  reason: SessionCloseReason;
  /** With `shutdown`: milliseconds to wait before reconnecting. The server spreads these times. */
  reconnectInMs?: number | null;
}

/** Sets the status of the user. */
export interface SetPresenceStatus {
  /** New status; `offline` makes a connected user invisible. */
  status: PresenceStatus;
}

/** Priority of a support conversation. */
export type SupportPriority = "urgent" | "high" | "normal" | "low";

/** A user is typing in a conversation, or stopped. */
export interface TypingChange {
  /** Conversation in which the user types. */
  conversationId: ConversationId;
  /** Id of the user. */
  userId: UserId;
  /** Display name, if known. */
  username?: string | null;
  /** True if the user is typing, false if the user stopped. */
  typing: boolean;
}

/** The user starts or stops typing in a conversation. */
export interface TypingRequest {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** Display name of the user, if a service acts for the user; otherwise the name in the token is used. */
  username?: string | null;
}

/** A user who is typing. */
export interface TypingUser {
  /** Id of the user. */
  userId: UserId;
  /** Display name, if known. */
  username?: string | null;
}

/** The unread count of a conversation changed. */
export interface UnreadChange {
  /** Id of the conversation. */
  conversationId: ConversationId;
  /** Unread messages in the conversation. */
  count: number;
  /** Unread messages in all conversations that are not muted. */
  total: number;
}

/** Unread count of a conversation and the user's total. */
export interface UnreadCount {
  /** Unread messages in the conversation. */
  unread: number;
  /** Unread messages in all conversations that are not muted. */
  total: number;
}

/** Change of the unread count of a conversation. */
export type UnreadUpdate = UnreadChange | LastSeqUpdate;

/** A user id */
export type UserId = string;

/** Visible status of a user. */
export interface UserStatus {
  /** Id of the user. */
  userId: UserId;
  /** Visible status. */
  status: PresenceStatus;
  /** Time of the user's last activity, ISO 8601: connect, heartbeat (at most once a minute), or going offline; null if unknown. */
  lastSeen?: string | null;
  /** Rises with each change; 0 if the user is unknown. */
  version: number;
  /** True if the store is unavailable; `status` is then not known. */
  degraded?: boolean;
  /** True if only another service that writes the documented keys keeps the user online. */
  external?: boolean;
}

/** Statuses of several users. */
export interface UserStatusList {
  /** The statuses, in the order of the request. */
  users: UserStatus[];
}

/** Returns the statuses of users and then every change. */
export interface WatchPresence {
  /** Ids of the users. */
  userIds: UserId[];
}

/** Client events: body, and fields of the acknowledgement besides `ok: true`. */
export interface ClientEvents {
  /** Reports that the device is still connected. */
  heartbeat: { body: EmptyObject; reply: HeartbeatReply };
  /** Sends a message. */
  "message:send": { body: SendMessage; reply: MessageReply };
  /** Sets the status of the user. */
  "presence:set": { body: SetPresenceStatus; reply: EmptyObject };
  /** Watches users: replies with their status and sends every change. */
  "presence:watch": { body: WatchPresence; reply: UserStatusList };
  /** Stops watching users: replies with their current status. */
  "presence:unwatch": { body: WatchPresence; reply: UserStatusList };
  /** Joins a conversation: replies with what the client missed and sends live events. */
  "conversation:join": { body: CatchUpConversation; reply: JoinReply };
  /** Stops the live events of a conversation for this socket. */
  "conversation:leave": { body: ConversationRef; reply: EmptyObject };
  /** Edits a message. */
  "message:edit": { body: EditMessage; reply: MessageReply };
  /** Deletes a message. */
  "message:delete": { body: DeleteMessage; reply: MessageReply };
  /** Marks messages as delivered up to a message. */
  "message:delivered": { body: MarkDelivered; reply: UnreadCount };
  /** Marks messages as read up to a message. */
  "message:read": { body: MarkRead; reply: UnreadCount };
  /** Marks messages as unread from a message on. */
  "message:unread": { body: MarkUnread; reply: UnreadCount };
  /** Replaces the token by another one of the same user, before it expires. */
  "session:refresh": { body: RefreshSession; reply: EmptyObject };
  /** Reports that the user is typing in a conversation; repeat it while the user types. */
  "typing:start": { body: TypingRequest; reply: EmptyObject };
  /** Reports that the user stopped typing in a conversation. */
  "typing:stop": { body: TypingRequest; reply: EmptyObject };
  /** Lists messages of a conversation, oldest first. */
  history: { body: ListMessages; reply: MessageList };
}

/** Server events: body. */
export interface ServerEvents {
  /** A message was sent in a joined conversation, by any client including this one. */
  "message:new": Message;
  /** A message was edited; ignore it if its `rev` is lower than one you already have. */
  "message:edited": Message;
  /** A message was deleted; its `seq` stays, its content is removed. */
  "message:deleted": Message;
  /** The messages of a conversation were delivered to a member up to a `seq`. */
  "message:delivered": ReceiptUpdate;
  /** A member has read the messages of a conversation up to a `seq`. */
  "message:read": ReceiptUpdate;
  /** Another user started or stopped typing in a joined conversation. */
  typing: TypingChange;
  /** The status of watched users changed; the latest status of each, at most ten times per second. */
  presence: UserStatusList;
  /** The unread count of a conversation changed; sent to all sockets of the user. */
  unread: UnreadUpdate;
  /** The user became a member of a conversation; sent to all sockets of the user. */
  "conversation:added": ConversationRef;
  /** The user is no longer a member of a conversation, or it was deleted; its live events have ended. */
  "conversation:removed": ConversationRef;
  /** Title, `open`, `history` or priority of a conversation changed; sent to all sockets of its members, above `unread.fanout_limit` members only to sockets that joined it. */
  "conversation:updated": Conversation;
  /** A user became a member of a joined conversation. */
  "member:added": MemberUpdate;
  /** A member of a joined conversation got another role. */
  "member:updated": MemberUpdate;
  /** A user is no longer a member of a joined conversation. */
  "member:removed": MemberUpdate;
  /** A conversation of the handshake's `resume` is joined and its missed events were sent; live events follow. */
  "conversation:resumed": ConversationResumed;
  /** The server closes the connection right after this event. */
  "session:closed": SessionClosed;
}

/** Stable error codes; docs/errors.md explains them. */
export type ErrorCode =
  | "token_missing"
  | "token_invalid"
  | "token_expired"
  | "token_not_yet_valid"
  | "keys_unavailable"
  | "user_required"
  | "forbidden"
  | "session_expired"
  | "session_blocked"
  | "read_only_session"
  | "not_a_member"
  | "origin_not_allowed"
  | "invalid_id"
  | "invalid_request"
  | "conversation_exists"
  | "content_too_large"
  | "edit_window_over"
  | "message_deleted"
  | "rate_limited"
  | "too_many"
  | "body_too_large"
  | "request_timeout"
  | "not_found"
  | "method_not_allowed"
  | "store_unavailable"
  | "store_full"
  | "database_unavailable"
  | "database_full"
  | "shutting_down"
  | "internal";

/** Error codes after which the same request can succeed later. */
export const retryableCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "keys_unavailable",
  "rate_limited",
  "store_unavailable",
  "store_full",
  "database_unavailable",
  "database_full",
  "shutting_down",
]);
