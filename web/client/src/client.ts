import { io, type ManagerOptions, type Socket, type SocketOptions } from "socket.io-client";

import { Emitter } from "./emitter.js";
import { ParlorError } from "./error.js";
import type { ClientEvents, Message, MessageList, ServerEvents } from "./events.js";
import { type MessageEvent, type Position, Stream } from "./stream.js";

export interface Options {
  /** Where Parlor is, for example `https://chat.example.com`. */
  url: string;
  /** A token, or how to get one. A function is asked at every connect, and again before the token ends. */
  token: string | (() => string | Promise<string>);
  /** What this device is called; the connection's own id if it is not said. */
  deviceId?: string;
  /** Conversations to follow from where an earlier client was, as its `positions()` said. */
  resume?: Record<string, Position>;
  /** How long an event may take, reconnects included; 20 s if it is not said. */
  timeoutMs?: number;
  /** Options of socket.io-client, such as `transports`. */
  socket?: Partial<ManagerOptions & SocketOptions>;
}

/** What the kit itself tells. */
export interface KitEvents {
  /** The connection is there; `recovered` says that the server still had the old one. */
  connected: { recovered: boolean };
  /** The connection was lost. The kit connects again. */
  disconnected: { reason: string };
  /** It is over: `close()` was called, or the server wants this client no more. */
  closed: ParlorError;
}

/** Those that the kit remembers, and has methods for. */
type Remembered = "conversation:join" | "conversation:leave" | "presence:watch" | "presence:unwatch";
type Event = keyof ClientEvents;
type Body<E extends Event> = ClientEvents[E]["body"];
type Reply<E extends Event> = ClientEvents[E]["reply"];
type Timer = ReturnType<typeof setTimeout>;

/** A typer counts for 3 s, and the server takes one start in 2 s. */
const TYPING_EVERY = 2200;
/** Without a key pressed for this long nobody types. */
const TYPING_ENDS = 3000;
/** A token is renewed this long before its end, or at half of what is left. */
const REFRESH_BEFORE = 60_000;
/** The longest time that timers know. */
const LONGEST = 2 ** 31 - 1;
/** Before the next try, where the server does not say how long. */
const PAUSE = 1000;

/** A connection to Parlor that mends itself. Made by `connect`. */
export class Client extends Emitter<ServerEvents & KitEvents> {
  /** Settles with the first connect. */
  readonly ready: Promise<void>;
  /** What lies below, for whatever the kit does not offer. */
  readonly socket: Socket;
  #streams = new Map<string, Stream>();
  #watched = new Set<string>();
  #typing = new Map<string, { timer: Timer; last: number }>();
  #timers: { heart?: Timer; refresh?: Timer; again?: Timer } = {};
  /** How long the server wants this client to stay away when it has closed the connection. */
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
    // Of the arguments only the first is the event's; a second is Socket.IO's own, for its recovery.
    this.socket.onAny((event, body) => this.#take(event, body));
    this.socket.connect();
  }

  /**
   * Asks the server. An event whose acknowledgement was lost with the connection is sent again with the next one: all of
   * them may be repeated, a message by its `clientId`.
   */
  emit<E extends Exclude<Event, Remembered>>(event: E, body: Body<E>): Promise<Reply<E>> {
    if (event !== "message:send") return this.#ask(event, body);
    const message = body as Body<"message:send">;
    this.#untype(message.conversationId);
    return this.#ask(event, { ...message, clientId: message.clientId ?? name() } as Body<E>);
  }

  /**
   * Follows a conversation: from now on, or from `after`, and through every reconnect. What was missed comes as
   * `message:new`, `message:edited` and `message:deleted`, before what happens next.
   */
  async join(conversationId: string, after?: { seq: number; rev?: number }): Promise<Omit<Reply<"conversation:join">, "missed">> {
    const stream = this.#streams.get(conversationId) ?? this.#stream(conversationId);
    const from = stream.joined ? stream.position : after;
    const body = { conversationId, ...(from && { afterSeq: from.seq }), ...(from?.rev && { afterRev: from.rev }) };
    try {
      const { missed, ...state } = await this.#ask("conversation:join", body);
      await stream.begin({ ...state, missed }, from);
      // What was more than one answer holds of changes is asked for from where this one ended.
      const further = stream.position.seq !== from?.seq || stream.position.rev !== from.rev;
      return state.hasMore && further ? this.join(conversationId) : state;
    } catch (error) {
      if (!stream.joined) this.#streams.delete(conversationId);
      throw error;
    }
  }

  /** Follows a conversation no longer. */
  async leave(conversationId: string): Promise<void> {
    this.#streams.delete(conversationId);
    await this.#ask("conversation:leave", { conversationId });
  }

  /** Watches users, through every reconnect: says how they are, and tells changes as `presence`. */
  watch(userIds: string[]): Promise<Reply<"presence:watch">> {
    for (const user of userIds) this.#watched.add(user);
    return this.#ask("presence:watch", { userIds });
  }

  async unwatch(userIds: string[]): Promise<void> {
    for (const user of userIds) this.#watched.delete(user);
    await this.#ask("presence:unwatch", { userIds });
  }

  /** To be called with each key pressed; the end is told by itself, by `typing(id, false)`, or by a message that is sent. */
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

  /** Up to where each conversation that is followed is known, for the `resume` of a later client. */
  positions(): Record<string, Position> {
    const joined = [...this.#streams].filter(([, stream]) => stream.joined);
    return Object.fromEntries(joined.map(([id, stream]) => [id, stream.position]));
  }

  /** Says goodbye. */
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

  /** Asks until there is an answer, or none to be had. */
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
      // One that was left may still have been under way.
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
      // Else socket.io-client would come back at once, together with everybody.
      this.socket.io.reconnection(false);
      this.#pause = reconnectInMs ?? PAUSE;
    } else if (reason !== "expired" || typeof this.options.token === "string") {
      // After this event has been told.
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
      // Without a token there is nothing to say; the next try asks for one again.
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
    // socket.io-client comes back by itself from everything but these.
    if (reason === "io server disconnect" || this.#pause !== undefined) this.#return(this.#pause);
    this.tell("disconnected", { reason });
  }

  #refused(error: Error & { data?: object }): void {
    // A connection that could not be made is tried again by socket.io-client.
    if (this.socket.active || this.#over) return;
    const refusal = ParlorError.from(error.data ?? { message: error.message });
    const stale = refusal.code === "token_expired" && typeof this.options.token === "function";
    if (!refusal.temporary && !stale) return this.close(refusal);
    // Whoever was refused together does not come back together.
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

/** When a token ends, in ms since 1970; 0 if it does not say. */
function ends(token: string): number {
  try {
    const claims = token.split(".")[1]?.replace(/-/g, "+").replace(/_/g, "/") ?? "";
    return (JSON.parse(atob(claims)).exp ?? 0) * 1000;
  } catch {
    return 0;
  }
}

/** A name for a message. `crypto.randomUUID` is missing on pages that came without TLS. */
function name(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Connects to Parlor. */
export function connect(options: Options): Client {
  return new Client(options);
}
