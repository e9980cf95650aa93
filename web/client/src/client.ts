import { io, type ManagerOptions, type Socket, type SocketOptions } from "socket.io-client";

import { TypedEmitter } from "./typed-emitter.js";
import { ParlorError } from "./parlor-error.js";
import type { ClientEvents, Message, MessageList, ServerEvents } from "./events.js";
import { type MessageEvent, type ConversationPosition, MessageStream } from "./message-stream.js";

// The connection, its reconnects and its events. `#disconnected`, `#onConnectError` and `#sessionClosed` decide whether
// and when the client reconnects; `#authenticate` sends the positions from which the server resumes. The order of the
// messages of a conversation is decided in message-stream.ts.

export interface ConnectOptions {
  /** URL of Parlor, for example `https://chat.example.com`. */
  url: string;
  /** A token, or a function that returns one. It is called at every connect, and again before the token expires. */
  token: string | (() => string | Promise<string>);
  /** Id of this device. Default: the socket id. */
  deviceId?: string;
  /** Conversations to resume, with the positions that `positions()` of an earlier client returned. */
  resume?: Record<string, ConversationPosition>;
  /** Timeout of an event in milliseconds, including reconnects. Default: 20,000. */
  timeoutMs?: number;
  /** Options of socket.io-client, for example `transports`. */
  socket?: Partial<ManagerOptions & SocketOptions>;
}

/** Events of the connection, besides those of the server. */
export interface ConnectionEvents {
  /** Connected. `recovered` is true if the server recovered the previous connection. */
  connected: { recovered: boolean };
  /** The connection was lost, or the token function failed. The client tries again. */
  disconnected: { reason: string };
  /** Closed for good: by `close()`, or by an error of the server that a reconnect cannot fix. */
  closed: ParlorError;
}

/** Events with a method of their own, because the client repeats their effect after a reconnect. */
type ManagedEvent = "conversation:join" | "conversation:leave" | "presence:watch" | "presence:unwatch";
type EventName = keyof ClientEvents;
type EventBody<E extends EventName> = ClientEvents[E]["body"];
type EventReply<E extends EventName> = ClientEvents[E]["reply"];
type Timer = ReturnType<typeof setTimeout>;

/** In milliseconds. Without a repeat, typing ends after 3 s; the server accepts one start per 2 s. */
const TYPING_REPEAT_MS = 2200;
/** In milliseconds. Typing ends after this time without a key press. */
const TYPING_IDLE_MS = 3000;
/** In milliseconds. A token is refreshed this long before it expires, but not before half of its lifetime is over. */
const REFRESH_BEFORE_EXPIRY_MS = 60_000;
/** Maximum delay of a timer in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;
/** Delay of a retry in milliseconds, if the server does not give one. */
const DEFAULT_RETRY_MS = 1000;

/** A connection to Parlor that reconnects by itself. Create it with `connect`. */
export class ParlorClient extends TypedEmitter<ServerEvents & ConnectionEvents> {
  /** Resolves with the first connect; rejects if the client is closed before that. */
  readonly ready: Promise<void>;
  /** Socket of socket.io-client, for features that this class does not offer. */
  readonly socket: Socket;
  #streams = new Map<string, MessageStream>();
  #watchedUsers = new Set<string>();
  #typingTimers = new Map<string, { timer: Timer; last: number }>();
  #timers: { heartbeat?: Timer; tokenRefresh?: Timer; reconnect?: Timer } = {};
  /** Reconnect delay that the server sent before it closed the connection, in milliseconds. */
  #reconnectDelay: number | undefined;
  #closeError: ParlorError | undefined;
  /** True if the application was notified that the token function fails. */
  #tokenErrorReported = false;

  constructor(private readonly options: ConnectOptions) {
    super();
    for (const [id, position] of Object.entries(options.resume ?? {})) this.#createStream(id, position);
    this.socket = io(options.url, {
      ...options.socket,
      forceNew: true,
      autoConnect: false,
      auth: (send) => void this.#authenticate(send),
    });
    this.ready = new Promise((resolve, reject) => {
      this.on("connected", () => resolve());
      this.on("closed", reject);
    });
    this.ready.catch(() => {});
    this.socket.on("connect", () => this.#connected());
    this.socket.on("disconnect", (reason) => this.#disconnected(reason));
    this.socket.on("connect_error", (error) => this.#onConnectError(error as Error & { data?: object }));
    // The first argument is the body. A second one is the offset for connection state recovery.
    this.socket.onAny((event, body) => this.#onServerEvent(event, body));
    this.socket.connect();
  }

  /**
   * Sends an event and resolves with its acknowledgement. If the connection is lost before the acknowledgement, the
   * event is sent again after the reconnect: every event may be repeated, a message because of its `clientId`.
   */
  emit<E extends Exclude<EventName, ManagedEvent>>(event: E, body: EventBody<E>): Promise<EventReply<E>> {
    if (event !== "message:send") return this.#emitWithRetry(event, body);
    const message = body as EventBody<"message:send">;
    this.#stopTyping(message.conversationId);
    return this.#emitWithRetry(event, { ...message, clientId: message.clientId ?? randomClientId() } as EventBody<E>);
  }

  /**
   * Joins a conversation and stays joined through reconnects. Without `after`, live events start now; with `after`,
   * missed messages and changes are delivered first, as `message:new`, `message:edited` and `message:deleted`.
   */
  async join(conversationId: string, after?: { seq: number; rev?: number }): Promise<Omit<EventReply<"conversation:join">, "missed">> {
    const stream = this.#streams.get(conversationId) ?? this.#createStream(conversationId);
    const from = stream.joined ? stream.position : after;
    const body = { conversationId, ...(from && { afterSeq: from.seq }), ...(from?.rev && { afterRev: from.rev }) };
    try {
      const { missed, ...state } = await this.#emitWithRetry("conversation:join", body);
      await stream.onJoined({ ...state, missed }, from);
      // One reply did not contain all missed changes: the next join requests the rest from the new position.
      const madeProgress = stream.position.seq !== from?.seq || stream.position.rev !== from.rev;
      return state.hasMore && madeProgress ? this.join(conversationId) : state;
    } catch (error) {
      if (!stream.joined) this.#streams.delete(conversationId);
      throw error;
    }
  }

  /** Leaves a conversation: its live events stop. */
  async leave(conversationId: string): Promise<void> {
    this.#streams.delete(conversationId);
    await this.#emitWithRetry("conversation:leave", { conversationId });
  }

  /** Watches users, also after reconnects. Resolves with their current status; changes are `presence` events. */
  watchPresence(userIds: string[]): Promise<EventReply<"presence:watch">> {
    for (const user of userIds) this.#watchedUsers.add(user);
    return this.#emitWithRetry("presence:watch", { userIds });
  }

  /** Stops watching users. */
  async unwatchPresence(userIds: string[]): Promise<void> {
    for (const user of userIds) this.#watchedUsers.delete(user);
    await this.#emitWithRetry("presence:unwatch", { userIds });
  }

  /** Call this on each key press. Typing ends after a pause, with `setTyping(id, false)`, or when a message is sent. */
  setTyping(conversationId: string, isTyping = true): void {
    const typingState = this.#typingTimers.get(conversationId);
    if (typingState && isTyping) {
      typingState.last = Date.now();
    } else if (isTyping) {
      const start = () => this.socket.volatile.emit("typing:start", { conversationId });
      const timer = setInterval(() => {
        if (Date.now() - state.last > TYPING_IDLE_MS) this.setTyping(conversationId, false);
        else start();
      }, TYPING_REPEAT_MS);
      const state = { timer, last: Date.now() };
      this.#typingTimers.set(conversationId, state);
      start();
    } else if (typingState) {
      this.#stopTyping(conversationId);
      this.socket.volatile.emit("typing:stop", { conversationId });
    }
  }

  /** Position in each joined conversation, for the option `resume` of a later client. */
  positions(): Record<string, ConversationPosition> {
    const joined = [...this.#streams].filter(([, stream]) => stream.joined);
    return Object.fromEntries(joined.map(([id, stream]) => [id, stream.position]));
  }

  /** Disconnects and closes the client for good. */
  close(reason = new ParlorError("closed", "the client was closed")): void {
    if (this.#closeError) return;
    this.#closeError = reason;
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    for (const id of [...this.#typingTimers.keys()]) this.#stopTyping(id);
    this.socket.disconnect();
    this.notify("closed", reason);
  }

  #createStream(id: string, known?: ConversationPosition): MessageStream {
    const deliver = (event: MessageEvent, message: Message) => this.notify(event, message);
    const stream = new MessageStream(deliver, (after) => this.#readHistory(id, after), known);
    this.#streams.set(id, stream);
    return stream;
  }

  async #readHistory(conversationId: string, after: number): Promise<MessageList> {
    const page = await this.#retry(() => this.#emitWithRetry("history", { conversationId, after, limit: 100 }));
    return page ?? { messages: [], hasMore: false };
  }

  /** Retries a request until it succeeds. Resolves with `undefined` after an error that is not retryable. */
  async #retry<T>(request: () => Promise<T>): Promise<T | undefined> {
    for (;;) {
      try {
        return await request();
      } catch (error) {
        const { isRetryable, code, retryAfterMs = DEFAULT_RETRY_MS } = error as ParlorError;
        if (this.#closeError || !(isRetryable || code === "timeout")) return undefined;
        await new Promise((resolve) => setTimeout(resolve, retryAfterMs));
      }
    }
  }

  async #emitWithRetry<E extends EventName>(event: E, body: EventBody<E>): Promise<EventReply<E>> {
    const end = Date.now() + (this.options.timeoutMs ?? 20_000);
    for (let timeLeft = 1; timeLeft > 0; ) {
      if (this.#closeError) throw this.#closeError;
      timeLeft = end - Date.now();
      const disconnected = { disconnected: true } as const;
      const reply = await this.socket.timeout(Math.max(timeLeft, 1)).emitWithAck(event, body).catch(() => disconnected);
      if (reply === disconnected) continue;
      if (!reply?.ok) throw ParlorError.from(reply?.error);
      delete reply.ok;
      return reply;
    }
    throw new ParlorError("timeout", `\`${event}\` was not acknowledged in time`);
  }

  #onServerEvent(event: string, body: unknown): void {
    if (event.startsWith("message:") && event !== "message:read" && event !== "message:delivered") {
      // A message of a conversation that was just left can still arrive; it is dropped.
      const message = body as Message;
      return this.#streams.get(message.conversationId)?.receive(event as MessageEvent, message);
    }
    if (event === "conversation:resumed") {
      return void this.#resumed(body as ServerEvents["conversation:resumed"]);
    }
    if (event === "conversation:removed") {
      this.#streams.delete((body as ServerEvents["conversation:removed"]).conversationId);
    } else if (event === "session:closed") {
      this.#sessionClosed(body as ServerEvents["session:closed"]);
    }
    this.notify(event as keyof ServerEvents, body as never);
  }

  async #resumed(state: ServerEvents["conversation:resumed"]): Promise<void> {
    const stream = this.#streams.get(state.conversationId);
    await stream?.onResumed(state);
    if (stream && state.hasMore) await this.#retry(() => this.join(state.conversationId));
    this.notify("conversation:resumed", state);
  }

  #sessionClosed({ reason, reconnectInMs }: ServerEvents["session:closed"]): void {
    if (reason === "shutdown") {
      // Otherwise socket.io-client would reconnect at once, together with all other clients.
      this.socket.io.reconnection(false);
      this.#reconnectDelay = reconnectInMs ?? DEFAULT_RETRY_MS;
    } else if (reason !== "expired" || typeof this.options.token === "string") {
      // Closes after the handlers of this event were called.
      queueMicrotask(() => this.close(new ParlorError(reason, `the server closed the session: ${reason}`)));
    }
  }

  async #authenticate(send: (auth: object) => void): Promise<void> {
    const engine = this.socket.io.engine;
    try {
      const token = await this.#token();
      const resume = this.positions();
      const { deviceId } = this.options;
      this.#tokenErrorReported = false;
      send({ token, ...(deviceId && { deviceId }), ...(Object.keys(resume).length > 0 && { resume }) });
    } catch (error) {
      // Without a token there is no handshake. The next attempt requests a token again.
      if (!this.#tokenErrorReported) this.notify("disconnected", { reason: `no token: ${String(error)}` });
      this.#tokenErrorReported = true;
      engine.close();
    }
  }

  async #token(): Promise<string> {
    const { token } = this.options;
    if (typeof token === "string") return token;
    const fresh = await token();
    const timeLeft = tokenExpiry(fresh) - Date.now();
    if (timeLeft > 0) this.#startTimer("tokenRefresh", Math.max(timeLeft - REFRESH_BEFORE_EXPIRY_MS, timeLeft / 2), () => void this.#refresh());
    return fresh;
  }

  async #refresh(): Promise<void> {
    try {
      await this.#emitWithRetry("session:refresh", { token: await this.#token() });
    } catch {
      if (!this.#closeError) this.#startTimer("tokenRefresh", DEFAULT_RETRY_MS, () => void this.#refresh());
    }
  }

  #connected(): void {
    const recovered = this.socket.recovered === true;
    void this.#heartbeat();
    if (!recovered && this.#watchedUsers.size > 0) {
      const again = this.#emitWithRetry("presence:watch", { userIds: [...this.#watchedUsers] });
      again.then(({ users }) => this.notify("presence", { users }), () => {});
    }
    this.notify("connected", { recovered });
  }

  async #heartbeat(): Promise<void> {
    const reply = await this.#emitWithRetry("heartbeat", {}).catch(() => undefined);
    if (this.socket.connected) this.#startTimer("heartbeat", reply?.nextInMs ?? DEFAULT_RETRY_MS, () => void this.#heartbeat());
  }

  #disconnected(reason: string): void {
    clearTimeout(this.#timers.heartbeat);
    if (this.#closeError) return;
    // socket.io-client reconnects by itself, except in these two cases.
    if (reason === "io server disconnect" || this.#reconnectDelay !== undefined) this.#reconnectAfter(this.#reconnectDelay);
    this.notify("disconnected", { reason });
  }

  #onConnectError(error: Error & { data?: object }): void {
    // socket.io-client retries by itself if the connection could not be opened.
    if (this.socket.active || this.#closeError) return;
    const parlorError = ParlorError.from(error.data ?? { message: error.message });
    const tokenExpired = parlorError.code === "token_expired" && typeof this.options.token === "function";
    if (!parlorError.isRetryable && !tokenExpired) return this.close(parlorError);
    // A random delay, so that clients that were rejected together do not reconnect together.
    this.#reconnectAfter((parlorError.retryAfterMs ?? DEFAULT_RETRY_MS) * (1 + Math.random() / 2));
  }

  #reconnectAfter(delay = DEFAULT_RETRY_MS): void {
    this.#startTimer("reconnect", delay, () => {
      this.#reconnectDelay = undefined;
      this.socket.io.reconnection(true);
      this.socket.connect();
    });
  }

  #stopTyping(conversationId: string): void {
    clearInterval(this.#typingTimers.get(conversationId)?.timer);
    this.#typingTimers.delete(conversationId);
  }

  #startTimer(name: "heartbeat" | "tokenRefresh" | "reconnect", ms: number, then: () => void): void {
    clearTimeout(this.#timers[name]);
    this.#timers[name] = setTimeout(then, Math.min(ms, MAX_TIMER_MS));
  }
}

/** Expiry of a token in milliseconds since 1970; 0 if it has none. */
function tokenExpiry(token: string): number {
  try {
    const claims = token.split(".")[1]?.replace(/-/g, "+").replace(/_/g, "/") ?? "";
    return (JSON.parse(atob(claims)).exp ?? 0) * 1000;
  } catch {
    return 0;
  }
}

/** Random `clientId` of a message. `crypto.randomUUID` does not exist on pages without TLS. */
function randomClientId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Connects to Parlor. */
export function connect(options: ConnectOptions): ParlorClient {
  return new ParlorClient(options);
}
