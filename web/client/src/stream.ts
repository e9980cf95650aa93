import type { Message, MessageList } from "./events.js";

/** Position of a client in a conversation: `seq` of the last message, and `rev` up to which all changes are known. */
export interface Position {
  seq: number;
  rev: number;
}

export type MessageEvent = "message:new" | "message:edited" | "message:deleted";

/** State of a conversation in the reply of a join or in `conversation:resumed`. */
interface State {
  lastSeq: number;
  rev: number;
  hasMore: boolean;
}

/** A received message event, or the end of the missed events. */
type Arrival = { event: MessageEvent; message: Message } | { event: "resumed"; state: State; done: () => void };

/** Maximum number of known revisions above a gap. A revision that a newer one has replaced never arrives. */
const MOST_ABOVE = 1000;

/**
 * Delivers the messages of one conversation. Each message is delivered once, in the order of `seq`; each edit or delete
 * is delivered once, after its message. An event that arrives before an earlier message is queued until that message
 * was read from the history.
 */
export class Stream {
  joined = false;
  #seq = 0;
  #rev = 0;
  /** Known revisions above `#rev`, with the `seq` of their message. */
  #above = new Map<number, number>();
  /** True if changes after `#rev` still have to be requested. */
  #more = false;
  #held: Arrival[] = [];
  #busy = false;

  /** `readHistory` returns the messages right after a `seq`, or none if they cannot be read. */
  constructor(
    private readonly hand: (event: MessageEvent, message: Message) => void,
    private readonly page: (after: number) => Promise<MessageList>,
    known?: Position,
  ) {
    if (known) this.#know(known);
  }

  get position(): Position {
    return { seq: this.#seq, rev: this.#rev };
  }

  /** Handles the reply of a join from `after`. Events that arrived meanwhile follow its missed messages. */
  async begin(state: State & { missed: Message[] }, after?: Partial<Position>): Promise<void> {
    this.#more = state.hasMore;
    const missed = state.missed.map((message): Arrival => ({ event: "message:new", message }));
    await new Promise<void>((done) => {
      const past: Arrival[] = [...missed, { event: "resumed", state, done }];
      this.#held = this.joined ? [...this.#held, ...past] : [...past, ...this.#held];
      if (!this.joined) this.#know({ seq: after?.seq ?? state.lastSeq, rev: after?.rev ?? 0 });
      void this.#work();
    });
  }

  /**
   * Handles the end of the missed events; with `hasMore`, only the first of them were sent. Resolves when the rest is
   * delivered, too.
   */
  resumed(state: State): Promise<void> {
    this.#more = state.hasMore;
    return new Promise((done) => this.#arrive({ event: "resumed", state, done }));
  }

  /** Receives an event from the server. */
  take(event: MessageEvent, message: Message): void {
    this.#arrive({ event, message });
  }

  #know({ seq, rev }: Position): void {
    this.#seq = seq;
    this.#rev = rev;
    this.joined = true;
  }

  #arrive(arrival: Arrival): void {
    this.#held.push(arrival);
    if (this.joined) void this.#work();
  }

  async #work(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    for (let covered = 0; !this.#release(covered); ) {
      // All messages before the events that are queued now are committed, so this read of the history finds them.
      covered = this.#held.length;
      const { messages, hasMore } = await this.page(this.#seq);
      for (const message of messages) this.#give("message:new", message);
      if (hasMore && messages.length > 0) covered = 0;
    }
    this.#busy = false;
  }

  /** Delivers queued events: the first `fillableCount` in any case, the others while no earlier message is missing. */
  #release(covered: number): boolean {
    for (let arrival = this.#held[0]; arrival; arrival = this.#held[0]) {
      if (covered <= 0 && !this.#isNext(arrival)) return false;
      covered -= 1;
      this.#held.shift();
      if (arrival.event === "resumed") this.#resume(arrival.state.rev, arrival.done);
      else this.#give(arrival.event, arrival.message);
    }
    return true;
  }

  #isNext(arrival: Arrival): boolean {
    if (arrival.event === "resumed") return !arrival.state.hasMore;
    return arrival.message.seq <= this.#seq + (arrival.event === "message:new" ? 1 : 0);
  }

  #resume(rev: number, done: () => void): void {
    this.#rev = Math.max(this.#rev, rev);
    this.#settle();
    done();
  }

  #give(event: MessageEvent, message: Message): void {
    const news = this.#note(message);
    if (message.seq > this.#seq) {
      // The message itself cannot be read, so its change is dropped.
      if (event !== "message:new") return;
      this.#seq = message.seq;
      this.hand(event, message);
    } else if (news) {
      this.hand(message.deletedAt ? "message:deleted" : "message:edited", message);
    }
  }

  /** Records a revision. False if it is known, or older than a known revision of the same message. */
  #note({ seq, rev }: Message): boolean {
    if (rev <= this.#rev || this.#above.has(rev)) return false;
    const overtaken = [...this.#above].some(([later, whose]) => whose === seq && later > rev);
    this.#above.set(rev, seq);
    if (this.#above.size > MOST_ABOVE) {
      // While changes have to be requested, a forgotten revision arrives again, but a skipped one would be lost.
      if (this.#more) this.#above.delete(rev);
      else this.#rev = Math.min(...this.#above.keys());
    }
    this.#settle();
    return !overtaken;
  }

  #settle(): void {
    for (const rev of this.#above.keys()) if (rev <= this.#rev) this.#above.delete(rev);
    while (this.#above.delete(this.#rev + 1)) this.#rev += 1;
  }
}
