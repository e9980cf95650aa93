import { io, type ManagerOptions, type Socket, type SocketOptions } from "socket.io-client";

import { Emitter } from "./emitter.js";
import { ParlorError } from "./error.js";
import type { ClientEvents, Message, MessageList, ServerEvents } from "./events.js";
import { type MessageEvent, type Position, Stream } from "./stream.js";

export interface Options {
  /** URL of Parlor, for example `https://chat.example.com`. */
  url: string;
  /** A token, or a function that returns one. It is called at every connect, and again before the token expires. */
  token: string | (() => string | Promise<string>);
  /** Id of this device. Default: the socket id. */
  deviceId?: string;
  /** Conversations to resume, with the positions that `positions()` of an earlier client returned. */
  resume?: Record<string, Position>;
  /** Timeout of an event in milliseconds, including reconnects. Default: 20,000. */
  timeoutMs?: number;
  /** Options of socket.io-client, for example `transports`. */
  socket?: Partial<ManagerOptions & SocketOptions>;
}

/** Events of the connection, besides those of the server. */
export interface KitEvents {
  /** Connected. `recovered` is true if the server recovered the previous connection. */
  connected: { recovered: boolean };
  /** The connection was lost. The client reconnects. */
  disconnected: { reason: string };
  /** Closed for good: by `close()`, or by an error of the server that a reconnect cannot fix. */
  closed: ParlorError;
}

/** Events with a method of their own, because the client repeats their effect after a reconnect. */
type Remembered = "conversation:join" | "conversation:leave" | "presence:watch" | "presence:unwatch";
type Event = keyof ClientEvents;
type Body<E extends Event> = ClientEvents[E]["body"];
type Reply<E extends Event> = ClientEvents[E]["reply"];
type Timer = ReturnType<typeof setTimeout>;

/** In milliseconds. Without a repeat, typing ends after 3 s; the server accepts one start per 2 s. */
const TYPING_EVERY = 2200;
/** In milliseconds. Typing ends after this time without a key press. */
const TYPING_ENDS = 3000;
/** In milliseconds. A token is refreshed this long before it expires, but not before half of its lifetime is over. */
const REFRESH_BEFORE = 60_000;
/** Maximum delay of a timer in milliseconds. */
const LONGEST = 2 ** 31 - 1;
/** Delay of a retry in milliseconds, if the server does not give one. */
const PAUSE = 1000;

/** A connection to Parlor that reconnects by itself. Create it with `connect`. */
export class Client extends Emitter<ServerEvents & KitEvents> {
  /** Resolves with the first connect; rejects if the client is closed before that. */
  readonly ready: Promise<void>;
  /** Socket of socket.io-client, for features that this class does not offer. */
  readonly socket: Socket;
  #streams = new Map<string, Stream>();
  #watched = new Set<string>();
  #typing = new Map<string, { timer: Timer; last: number }>();
  #timers: { heart?: Timer; refresh?: Timer; again?: Timer } = {};
  /** Reconnect delay that the server sent before it closed the connection, in milliseconds. */
  #pause: number | undefined;
  #over: ParlorError | undefined;

  constructor(private readonly options: Options) {
    super();
    for (const [id, position] of Object.entries(options.resume ?? {})) this.#stream(id, position);
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
    this.socket.on("connect_error", (error) => this.#refused(error as Error & { data?: object }));
    // The first argument is the body. A second one is the offset for connection state recovery.
    this.socket.onAny((event, body) => this.#take(event, body));
    this.socket.connect();
  }

  /**
   * Sends an event and resolves with its acknowledgement. If the connection is lost before the acknowledgement, the
   * event is sent again after the reconnect: every event may be repeated, a message because of its `clientId`.
   */
  emit<E extends Exclude<Event, Remembered>>(event: E, body: Body<E>): Promise<Reply<E>> {
    if (event !== "message:send") return this.#ask(event, body);
    const message = body as Body<"message:send">;
    this.#untype(message.conversationId);
    return this.#ask(event, { ...message, clientId: message.clientId ?? name() } as Body<E>);
  }

  /**
   * Joins a conversation and stays joined through reconnects. Without `after`, live events start now; with `after`,
   * missed messages and changes are delivered first, as `message:new`, `message:edited` and `message:deleted`.
   */
  async join(conversationId: string, after?: { seq: number; rev?: number }): Promise<Omit<Reply<"conversation:join">, "missed">> {
    const stream = this.#streams.get(conversationId) ?? this.#stream(conversationId);
    const from = stream.joined ? stream.position : after;
    const body = { conversationId, ...(from && { afterSeq: from.seq }), ...(from?.rev && { afterRev: from.rev }) };
    try {
      const { missed, ...state } = await this.#ask("conversation:join", body);
      await stream.begin({ ...state, missed }, from);
      // One reply did not contain all missed changes: the next join requests the rest from the new position.
      const further = stream.position.seq !== from?.seq || stream.position.rev !== from.rev;
      return state.hasMore && further ? this.join(conversationId) : state;
    } catch (error) {
      if (!stream.joined) this.#streams.delete(conversationId);
      throw error;
    }
  }

  /** Leaves a conversation: its live events stop. */
  async leave(conversationId: string): Promise<void> {
    this.#streams.delete(conversationId);
    await this.#ask("conversation:leave", { conversationId });
  }

  /** Watches users, also after reconnects. Resolves with their current status; changes are `presence` events. */
  watch(userIds: string[]): Promise<Reply<"presence:watch">> {
    for (const user of userIds) this.#watched.add(user);
    return this.#ask("presence:watch", { userIds });
  }

  async unwatch(userIds: string[]): Promise<void> {
    for (const user of userIds) this.#watched.delete(user);
    await this.#ask("presence:unwatch", { userIds });
  }

  /** Call this on each key press. Typing ends after a pause, with `setTyping(id, false)`, or when a message is sent. */
  typing(conversationId: string, typing = true): void {
    const typer = this.#typing.get(conversationId);
    if (typer && typing) {
      typer.last = Date.now();
    } else if (typing) {
      const start = () => this.socket.volatile.emit("typing:start", { conversationId });
      const timer = setInterval(() => {
        if (Date.now() - state.last > TYPING_ENDS) this.typing(conversationId, false);
        else start();
      }, TYPING_EVERY);
      const state = { timer, last: Date.now() };
      this.#typing.set(conversationId, state);
      start();
    } else if (typer) {
      this.#untype(conversationId);
      this.socket.volatile.emit("typing:stop", { conversationId });
    }
  }

  /** Position of each joined conversation, for the option `resume` of a later client. */
  positions(): Record<string, Position> {
    const joined = [...this.#streams].filter(([, stream]) => stream.joined);
    return Object.fromEntries(joined.map(([id, stream]) => [id, stream.position]));
  }

  /** Disconnects and closes the client for good. */
  close(reason = new ParlorError("closed", "the client was closed")): void {
    if (this.#over) return;
    this.#over = reason;
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    for (const id of [...this.#typing.keys()]) this.#untype(id);
    this.socket.disconnect();
    this.tell("closed", reason);
  }

  #stream(id: string, known?: Position): Stream {
    const hand = (event: MessageEvent, message: Message) => this.tell(event, message);
    const stream = new Stream(hand, (after) => this.#page(id, after), known);
    this.#streams.set(id, stream);
    return stream;
  }

  async #page(conversationId: string, after: number): Promise<MessageList> {
    const page = await this.#patiently(() => this.#ask("history", { conversationId, after, limit: 100 }));
    return page ?? { messages: [], hasMore: false };
  }

  /** Retries a request until it succeeds. Resolves with `undefined` after an error that is not retryable. */
  async #patiently<T>(ask: () => Promise<T>): Promise<T | undefined> {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        const { temporary, code, retryAfterMs = PAUSE } = error as ParlorError;
        if (this.#over || !(temporary || code === "timeout")) return undefined;
        await new Promise((resolve) => setTimeout(resolve, retryAfterMs));
      }
    }
  }

  async #ask<E extends Event>(event: E, body: Body<E>): Promise<Reply<E>> {
    const end = Date.now() + (this.options.timeoutMs ?? 20_000);
    for (let left = 1; left > 0; ) {
      if (this.#over) throw this.#over;
      left = end - Date.now();
      const lost = { lost: true } as const;
      const reply = await this.socket.timeout(Math.max(left, 1)).emitWithAck(event, body).catch(() => lost);
      if (reply === lost) continue;
      if (!reply?.ok) throw ParlorError.from(reply?.error);
      delete reply.ok;
      return reply;
    }
    throw new ParlorError("timeout", `\`${event}\` was not acknowledged in time`);
  }

  #take(event: string, body: unknown): void {
    if (event.startsWith("message:") && event !== "message:read" && event !== "message:delivered") {
      // A message of a conversation that was just left can still arrive; it is dropped.
      const message = body as Message;
      return this.#streams.get(message.conversationId)?.take(event as MessageEvent, message);
    }
    if (event === "conversation:resumed") {
      return void this.#resumed(body as ServerEvents["conversation:resumed"]);
    }
    if (event === "conversation:removed") {
      this.#streams.delete((body as ServerEvents["conversation:removed"]).conversationId);
    } else if (event === "session:closed") {
      this.#sessionClosed(body as ServerEvents["session:closed"]);
    }
    this.tell(event as keyof ServerEvents, body as never);
  }

  async #resumed(state: ServerEvents["conversation:resumed"]): Promise<void> {
    const stream = this.#streams.get(state.conversationId);
    await stream?.resumed(state);
    if (stream && state.hasMore) await this.#patiently(() => this.join(state.conversationId));
    this.tell("conversation:resumed", state);
  }

  #sessionClosed({ reason, reconnectInMs }: ServerEvents["session:closed"]): void {
    if (reason === "shutdown") {
      // Otherwise socket.io-client would reconnect at once, together with all other clients.
      this.socket.io.reconnection(false);
      this.#pause = reconnectInMs ?? PAUSE;
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
      send({ token, ...(deviceId && { deviceId }), ...(Object.keys(resume).length > 0 && { resume }) });
    } catch {
      // Without a token there is no handshake. The next attempt requests a token again.
      engine.close();
    }
  }

  async #token(): Promise<string> {
    const { token } = this.options;
    if (typeof token === "string") return token;
    const fresh = await token();
    const left = ends(fresh) - Date.now();
    if (left > 0) this.#later("refresh", Math.max(left - REFRESH_BEFORE, left / 2), () => void this.#refresh());
    return fresh;
  }

  async #refresh(): Promise<void> {
    try {
      await this.#ask("session:refresh", { token: await this.#token() });
    } catch {
      if (!this.#over) this.#later("refresh", PAUSE, () => void this.#refresh());
    }
  }

  #connected(): void {
    const recovered = this.socket.recovered === true;
    void this.#beat();
    if (!recovered && this.#watched.size > 0) {
      const again = this.#ask("presence:watch", { userIds: [...this.#watched] });
      again.then(({ users }) => this.tell("presence", { users }), () => {});
    }
    this.tell("connected", { recovered });
  }

  async #beat(): Promise<void> {
    const reply = await this.#ask("heartbeat", {}).catch(() => undefined);
    if (this.socket.connected) this.#later("heart", reply?.nextInMs ?? PAUSE, () => void this.#beat());
  }

  #disconnected(reason: string): void {
    clearTimeout(this.#timers.heart);
    if (this.#over) return;
    // socket.io-client reconnects by itself, except in these two cases.
    if (reason === "io server disconnect" || this.#pause !== undefined) this.#return(this.#pause);
    this.tell("disconnected", { reason });
  }

  #refused(error: Error & { data?: object }): void {
    // socket.io-client retries by itself if the connection could not be opened.
    if (this.socket.active || this.#over) return;
    const refusal = ParlorError.from(error.data ?? { message: error.message });
    const stale = refusal.code === "token_expired" && typeof this.options.token === "function";
    if (!refusal.temporary && !stale) return this.close(refusal);
    // A random delay, so that clients that were rejected together do not reconnect together.
    this.#return((refusal.retryAfterMs ?? PAUSE) * (1 + Math.random() / 2));
  }

  #return(pause = PAUSE): void {
    this.#later("again", pause, () => {
      this.#pause = undefined;
      this.socket.io.reconnection(true);
      this.socket.connect();
    });
  }

  #untype(conversationId: string): void {
    clearInterval(this.#typing.get(conversationId)?.timer);
    this.#typing.delete(conversationId);
  }

  #later(name: "heart" | "refresh" | "again", ms: number, then: () => void): void {
    clearTimeout(this.#timers[name]);
    this.#timers[name] = setTimeout(then, Math.min(ms, LONGEST));
  }
}

/** Expiry of a token in milliseconds since 1970; 0 if it has none. */
function ends(token: string): number {
  try {
    const claims = token.split(".")[1]?.replace(/-/g, "+").replace(/_/g, "/") ?? "";
    return (JSON.parse(atob(claims)).exp ?? 0) * 1000;
  } catch {
    return 0;
  }
}

/** Random `clientId` of a message. `crypto.randomUUID` does not exist on pages without TLS. */
function name(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Connects to Parlor. */
export function connect(options: Options): Client {
  return new Client(options);
}
