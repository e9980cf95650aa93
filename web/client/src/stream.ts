import type { Message, MessageList } from "./events.js";

/** Up to where a conversation is known: its last message, and the change up to which all are known. */
export interface Position {
  seq: number;
  rev: number;
}

export type MessageEvent = "message:new" | "message:edited" | "message:deleted";

/** What the server says about a conversation that was joined or resumed. */
interface State {
  lastSeq: number;
  rev: number;
  hasMore: boolean;
}

/** A message that came, or the word that all that was missed has come. */
type Arrival = { event: MessageEvent; message: Message } | { event: "resumed"; state: State; done: () => void };

/** Changes that may be known above one that is not. One that was overtaken by a newer never comes. */
const MOST_ABOVE = 1000;

/**
 * The messages of one conversation. Always true: each is handed out once, in the order of `seq`, and each change of one
 * once, after it. What comes too early is held until what lies before it was read from the history.
 */
export class Stream {
  joined = false;
  #seq = 0;
  #rev = 0;
  /** Changes that are known above `#rev`, and whose they are. */
  #above = new Map<number, number>();
  /** Changes after `#rev` are still to be asked for. */
  #more = false;
  #held: Arrival[] = [];
  #busy = false;

  /** `page` reads the messages right after a number, and answers with none if there is no way to them. */
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

  /** The server was asked to join, from `after` on, and answered; all that came meanwhile follows it. */
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

  /** All that was missed has come; with `hasMore`, the first of it. Settles when the rest is handed out, too. */
  resumed(state: State): Promise<void> {
    this.#more = state.hasMore;
    return new Promise((done) => this.#arrive({ event: "resumed", state, done }));
  }

  /** Something came from the server. */
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
      // Whatever has arrived by now lies before the end of what is read now.
      covered = this.#held.length;
      const { messages, hasMore } = await this.page(this.#seq);
      for (const message of messages) this.#give("message:new", message);
      if (hasMore && messages.length > 0) covered = 0;
    }
    this.#busy = false;
  }

  /** Hands out what is held: the first `covered` as they are, the rest while nothing is missing before it. */
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
      // A change of what is not there to be read is nobody's business.
      if (event !== "message:new") return;
      this.#seq = message.seq;
      this.hand(event, message);
    } else if (news) {
      this.hand(message.deletedAt ? "message:deleted" : "message:edited", message);
    }
  }

  /** Notes a change. False if it is known, or older than one that is known of the same message. */
  #note({ seq, rev }: Message): boolean {
    if (rev <= this.#rev || this.#above.has(rev)) return false;
    const overtaken = [...this.#above].some(([later, whose]) => whose === seq && later > rev);
    this.#above.set(rev, seq);
    if (this.#above.size > MOST_ABOVE) {
      // What is not noted may come once more; what is skipped would never come.
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
