// Written from the tables of the gateway; `make docs` rewrites it.

/** What waits for a user in a conversation, and in all. */
export interface Badge {
  /** Unread messages in the conversation. */
  unread: number;
  /** Unread messages in all conversations that are not muted. */
  total: number;
}

/** What the caller missed of a conversation. For its members, when they begin to be told what happens there: asked after that, so that nothing lies between. */
export interface CatchUp {
  /** Where. */
  conversationId: ConversationId;
  /** The last message that the caller knows; without it nothing was missed. */
  afterSeq?: number | null;
  /** The last revision that the caller knows; without it no changes of older messages are told. */
  afterRev?: number | null;
}

/** Why a connection is closed. */
export type ClosedReason = "blocked" | "logout" | "replaced" | "shutdown" | "expired";

/** Why a client was not let in: the error of `connect_error`. */
export interface ConnectRefused {
  /** What people read. */
  message: string;
  /** What programs go by. */
  code: string;
  /** The same once more, where Socket.IO's clients show it. */
  data: Failure;
}

/** A conversation. */
export interface Conversation {
  /** Which. */
  conversationId: ConversationId;
}

/** A conversation id */
export type ConversationId = string;

/** A conversation that the handshake's `resume` named: what the client missed of it was told before this, as `message:new`, `message:edited` and `message:deleted`. */
export interface ConversationResumed {
  /** Which. */
  conversationId: ConversationId;
  /** The last message of the conversation: the live stream goes on right after it. */
  lastSeq: number;
  /** The revision up to which changes are told. */
  rev: number;
  /** Unread messages of the caller there. */
  unread: number;
  /** Who types there. */
  typing: Typer[];
  /** There is more than was told: messages are read on with `history`, changes by joining with this `rev` as `afterRev`. */
  hasMore: boolean;
}

/** Takes the content of a message away; its number stays. For the same people as an edit. Again it is harmless. */
export interface DeleteMessage {
  /** Where. */
  conversationId: ConversationId;
  /** Its number. */
  seq: number;
}

/** A device id */
export type DeviceId = string;

/** Gives a message another text or other metadata. For its sender within some minutes; for owners and admins of the conversation, for admins and services any time. */
export interface EditMessage {
  /** Where. */
  conversationId: ConversationId;
  /** Its number. */
  seq: number;
  /** The text; as it was if it is not said. */
  content?: string | null;
  /** The metadata; as it was if it is not said. Who is mentioned in it is not told by an edit. */
  metadata?: Record<string, unknown> | null;
}

/** Why something was refused. */
export interface Failure {
  /** What programs go by; docs/errors.md lists them. */
  code: string;
  /** What people read. */
  message: string;
  /** When to try again, in milliseconds from now, where it is known. */
  retryAfterMs?: number | null;
}

/** What a client shows when it connects, as Socket.IO's `auth`. */
export interface Handshake {
  /** The bearer token, without `Bearer`. */
  token?: string;
  /** What the device is called, the same with each connection; the socket's id if it is not said. */
  deviceId?: DeviceId | null;
  /** With a service token: the user it acts for. Others may name only themselves. */
  userId?: UserId | null;
  /** The conversations to join, each with the last message the client has: what it missed is told before anything else. */
  resume?: Record<string, Place>;
}

/** The last message of a conversation. */
export interface LastMessage {
  /** Where. */
  conversationId: ConversationId;
  /** Its number. */
  lastSeq: number;
}

/** Messages of a conversation: those before a number, those after it, or the newest. For its members. */
export interface ListMessages {
  /** Where. */
  conversationId: ConversationId;
  /** The messages right before this one. */
  before?: number | null;
  /** The messages right after this one. */
  after?: number | null;
  /** How many at most; 50 if it is not said. */
  limit?: number | null;
}

/** Messages of a conversation have reached the caller up to one. */
export interface MarkDelivered {
  /** Where. */
  conversationId: ConversationId;
  /** The last message that reached them; the conversation's last one if it is not said. */
  seq?: number | null;
}

/** The caller has read a conversation's messages up to one. */
export interface MarkRead {
  /** Where. */
  conversationId: ConversationId;
  /** The last message that was read; the conversation's last one if it is not said. */
  seq?: number | null;
}

/** The messages of a conversation from one on wait for the caller again. What others see of what they read stays. */
export interface MarkUnread {
  /** Where. */
  conversationId: ConversationId;
  /** The first message that is unread again. */
  seq: number;
}

/** A message. */
export interface Message {
  /** Its id, a UUIDv7. */
  id: string;
  /** Where it was sent. */
  conversationId: ConversationId;
  /** Its number in the conversation: 1, 2, 3, without a gap. */
  seq: number;
  /** Who sent it. */
  senderId: UserId;
  /** The text; empty when it was deleted. */
  content: string;
  /** What the sender added; absent when it was deleted. */
  metadata?: Record<string, unknown> | null;
  /** What the sender calls it, so that a repetition is not a second message. */
  clientId?: string | null;
  /** When it was sent, in ISO 8601. */
  createdAt: string;
  /** When it was last edited. */
  editedAt?: string | null;
  /** When it was deleted. */
  deletedAt?: string | null;
  /** The conversation's revision when it was last changed: of two versions of a message the higher is the newer one. */
  rev: number;
}

/** Messages, oldest first. */
export interface MessageList {
  /** The messages. */
  messages: Message[];
  /** Whether there are more in this direction. */
  hasMore: boolean;
}

/** When to beat again. */
export interface NextHeartbeat {
  /** Milliseconds until the next beat is expected. */
  nextInMs: number;
}

/** Nothing has to be said. */
export type Nothing = Record<string, unknown>;

/** A message, as acknowledged. */
export interface OneMessage {
  /** The message. */
  message: Message;
}

/** How far a client has got in a conversation. */
export type Place = number | { seq: number; rev: number };

/** How far somebody has got or read a conversation's messages. */
export interface Reached {
  /** Where. */
  conversationId: ConversationId;
  /** Who. */
  userId: UserId;
  /** The last message. */
  seq: number;
}

/** Another token for the connection, of the same user. */
export interface Refresh {
  /** The bearer token, without `Bearer`. */
  token: string;
}

/** An acknowledgement of something that was refused. */
export interface Refused {
  /** False. */
  ok: boolean;
  /** Why. */
  error: Failure;
}

/** What somebody missed of a conversation, and how it stands. */
export interface Resumed {
  /** Messages after `afterSeq`, at most 500, and older ones that were changed after `afterRev`, at most 500; by `seq`. */
  missed: Message[];
  /** The number of the newest message; 0 if there is none. */
  lastSeq: number;
  /** The revision up to which changes are told; to be given as `afterRev` the next time. */
  rev: number;
  /** How many messages wait for the caller. */
  unread: number;
  /** Who types. */
  typing: Typer[];
  /** Whether more was missed than is told: further messages are asked for with `history`, further changes with this `rev` as `afterRev`. */
  hasMore: boolean;
}

/** How users are seen. */
export interface Seen {
  /** The users. */
  users: UserStatus[];
}

/** Sends a message. Answered when it is on disk. */
export interface SendMessage {
  /** Where. */
  conversationId: ConversationId;
  /** The text; may be empty if there is metadata. */
  content?: string;
  /** What is added to it. `mentions` is a list of user ids. */
  metadata?: Record<string, unknown> | null;
  /** What the client calls it: the same again is answered with the first message. */
  clientId?: string | null;
}

/** The server closes the connection right after it. */
export interface SessionClosed {
  /** Why. */
  reason: ClosedReason;
  /** With `shutdown`: how long to wait before connecting again, so that not everybody comes at once. */
  reconnectInMs?: number | null;
}

/** How a user wants to be seen. */
export interface SetStatus {
  /** How; `offline` hides them although they are connected. */
  status: Status;
}

/** How a user is seen, or wants to be seen. */
export type Status = "online" | "away" | "busy" | "offline";

/** Somebody who types in a conversation. */
export interface Typer {
  /** Who. */
  userId: UserId;
  /** What they are called, if they have a name. */
  username?: string | null;
}

/** Somebody types in a conversation, still does, or no longer. */
export interface TypingChange {
  /** Where. */
  conversationId: ConversationId;
  /** Who. */
  userId: UserId;
  /** What they are called, if they have a name. */
  username?: string | null;
  /** Whether they type. */
  typing: boolean;
}

/** The caller types in a conversation, or no longer. */
export interface TypingIn {
  /** Where. */
  conversationId: ConversationId;
  /** What the user is called, where a service acts for them; else the token says it. */
  username?: string | null;
}

/** What waits for a user in a conversation, and in all, has changed. */
export interface UnreadChange {
  /** Where. */
  conversationId: ConversationId;
  /** Unread messages there. */
  count: number;
  /** Unread messages in all conversations that are not muted. */
  total: number;
}

/** What waits for the user in a conversation. */
export type UnreadNews = UnreadChange | LastMessage;

/** A user id */
export type UserId = string;

/** How a user is seen. */
export interface UserStatus {
  /** Who. */
  userId: UserId;
  /** How. */
  status: Status;
  /** When they were last seen to leave, in ISO 8601; null if never. */
  lastSeen?: string | null;
  /** Rises with each change; 0 if nothing is known. */
  version: number;
  /** The store did not answer, and `offline` is a guess. */
  degraded?: boolean;
}

/** Users to be watched, or no longer. */
export interface Watched {
  /** Who. */
  userIds: UserId[];
}

/** What a client says: the body of each event, and what its acknowledgement holds beside `ok: true`. */
export interface ClientEvents {
  /** The device is still there. */
  heartbeat: { body: Nothing; reply: NextHeartbeat };
  /** Sends a message. */
  "message:send": { body: SendMessage; reply: OneMessage };
  /** Says how the user wants to be seen. */
  "presence:set": { body: SetStatus; reply: Nothing };
  /** Tells how chosen users are seen, now and with every change. */
  "presence:watch": { body: Watched; reply: Seen };
  /** Ends the watching of users; tells how they are seen now. */
  "presence:unwatch": { body: Watched; reply: Seen };
  /** Opens the live stream of a conversation for this socket, and tells what it missed. */
  "conversation:join": { body: CatchUp; reply: Resumed };
  /** Closes the live stream of a conversation for this socket. */
  "conversation:leave": { body: Conversation; reply: Nothing };
  /** Edits a message. */
  "message:edit": { body: EditMessage; reply: OneMessage };
  /** Deletes a message. */
  "message:delete": { body: DeleteMessage; reply: OneMessage };
  /** Says that messages have reached a user up to one. */
  "message:delivered": { body: MarkDelivered; reply: Badge };
  /** Says that a user has read up to a message. */
  "message:read": { body: MarkRead; reply: Badge };
  /** Marks messages as unread from one on. */
  "message:unread": { body: MarkUnread; reply: Badge };
  /** Shows another token of the same user, before the time of the one before is over. */
  "session:refresh": { body: Refresh; reply: Nothing };
  /** Says that the user types in a conversation; repeated while they do. */
  "typing:start": { body: TypingIn; reply: Nothing };
  /** Says that the user no longer types in a conversation. */
  "typing:stop": { body: TypingIn; reply: Nothing };
  /** Messages of a conversation, oldest first. */
  history: { body: ListMessages; reply: MessageList };
}

/** What the server says: the body of each event. */
export interface ServerEvents {
  /** A message was sent in a conversation that this socket joined, by anybody, this socket included. */
  "message:new": Message;
  /** A message was edited; one with a lower `rev` than seen before is old news. */
  "message:edited": Message;
  /** A message was deleted; its number stays, its content is gone. */
  "message:deleted": Message;
  /** A conversation's messages have reached a member up to one. */
  "message:delivered": Reached;
  /** A member has read a conversation's messages up to one. */
  "message:read": Reached;
  /** Somebody else types in a conversation that this socket joined, or no longer. */
  typing: TypingChange;
  /** How watched users are seen has changed; the latest of each, at most ten times a second. */
  presence: Seen;
  /** What waits for the user in a conversation has changed; told to all their sockets. */
  unread: UnreadNews;
  /** The user has become a member of a conversation; told to all their sockets. */
  "conversation:added": Conversation;
  /** The user is no longer a member of a conversation, or it was deleted: its live stream has ended. */
  "conversation:removed": Conversation;
  /** A conversation of the handshake's `resume` is joined, and what was missed of it has been told; its live stream follows. */
  "conversation:resumed": ConversationResumed;
  /** The server closes the connection right after this. */
  "session:closed": SessionClosed;
}

/** Why something was refused; docs/errors.md explains them. */
export type Code =
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

/** Codes of what may succeed later. */
export const temporary: ReadonlySet<Code> = new Set<Code>([
  "keys_unavailable",
  "rate_limited",
  "store_unavailable",
  "store_full",
  "database_unavailable",
  "database_full",
  "shutting_down",
]);
