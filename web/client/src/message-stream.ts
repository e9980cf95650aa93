import type { Message, MessageList } from "./events.js";

/** Position of a client in a conversation: `seq` of the last message, and `rev` up to which all changes are known. */
export interface ConversationPosition {
  seq: number;
  rev: number;
}

export type MessageEvent = "message:new" | "message:edited" | "message:deleted";

/** State of a conversation in the reply of a join or in `conversation:resumed`. */
interface JoinState {
  lastSeq: number;
  rev: number;
  hasMore: boolean;
}

/** A received message event, or the end of the missed events. */
type QueuedEvent = { event: MessageEvent; message: Message } | { event: "resumed"; state: JoinState; done: () => void };

/** Maximum number of known revisions above a gap. A revision that a newer one has replaced never arrives. */
const MAX_REVS_AHEAD = 1000;

/**
 * Delivers the messages of one conversation. Each message is delivered once, in the order of `seq`; each edit or delete
 * is delivered once, after its message. An event that arrives before an earlier message is queued until that message
 * was read from the history.
 */
export class MessageStream {
  joined = false;
  #seq = 0;
  #rev = 0;
  /** Known revisions above `#rev`, with the `seq` of their message. */
  #revsAhead = new Map<number, number>();
  /** True if changes after `#rev` still have to be requested. */
  #hasMoreChanges = false;
  #queue: QueuedEvent[] = [];
  #isDraining = false;

  /** `readHistory` returns the messages right after a `seq`, or none if they cannot be read. */
  constructor(
    private readonly deliver: (event: MessageEvent, message: Message) => void,
    private readonly readHistory: (after: number) => Promise<MessageList>,
    known?: ConversationPosition,
  ) {
    if (known) this.#setPosition(known);
  }

  get position(): ConversationPosition {
    return { seq: this.#seq, rev: this.#rev };
  }

  /** Handles the reply of a join from `after`. Events that arrived meanwhile follow its missed messages. */
  async onJoined(state: JoinState & { missed: Message[] }, after?: Partial<ConversationPosition>): Promise<void> {
    this.#hasMoreChanges = state.hasMore;
    const missed = state.missed.map((message): QueuedEvent => ({ event: "message:new", message }));
    await new Promise<void>((done) => {
      const missedEvents: QueuedEvent[] = [...missed, { event: "resumed", state, done }];
      this.#queue = this.joined ? [...this.#queue, ...missedEvents] : [...missedEvents, ...this.#queue];
      if (!this.joined) this.#setPosition({ seq: after?.seq ?? state.lastSeq, rev: after?.rev ?? 0 });
      void this.#drain();
    });
  }

  /**
   * Handles the end of the missed events; with `hasMore`, only the first of them were sent. Resolves when the rest is
   * delivered, too.
   */
  onResumed(state: JoinState): Promise<void> {
    this.#hasMoreChanges = state.hasMore;
    return new Promise((done) => this.#enqueue({ event: "resumed", state, done }));
  }

  /** Receives an event from the server. */
  receive(event: MessageEvent, message: Message): void {
    this.#enqueue({ event, message });
  }

  #setPosition({ seq, rev }: ConversationPosition): void {
    this.#seq = seq;
    this.#rev = rev;
    this.joined = true;
  }

  #enqueue(queued: QueuedEvent): void {
    this.#queue.push(queued);
    if (this.joined) void this.#drain();
  }

  async #drain(): Promise<void> {
    if (this.#isDraining) return;
    this.#isDraining = true;
    for (let fillableCount = 0; !this.#deliverQueued(fillableCount); ) {
      // All messages before the events that are queued now are committed, so this read of the history finds them.
      fillableCount = this.#queue.length;
      const { messages, hasMore } = await this.readHistory(this.#seq);
      for (const message of messages) this.#deliverOnce("message:new", message);
      if (hasMore && messages.length > 0) fillableCount = 0;
    }
    this.#isDraining = false;
  }

  /** Delivers queued events: the first `fillableCount` in any case, the others while no earlier message is missing. */
  #deliverQueued(fillableCount: number): boolean {
    for (let queued = this.#queue[0]; queued; queued = this.#queue[0]) {
      if (fillableCount <= 0 && !this.#isNextInOrder(queued)) return false;
      fillableCount -= 1;
      this.#queue.shift();
      if (queued.event === "resumed") this.#finishResume(queued.state.rev, queued.done);
      else this.#deliverOnce(queued.event, queued.message);
    }
    return true;
  }

  #isNextInOrder(queued: QueuedEvent): boolean {
    if (queued.event === "resumed") return !queued.state.hasMore;
    return queued.message.seq <= this.#seq + (queued.event === "message:new" ? 1 : 0);
  }

  #finishResume(rev: number, done: () => void): void {
    this.#rev = Math.max(this.#rev, rev);
    this.#compactRevs();
    done();
  }

  #deliverOnce(event: MessageEvent, message: Message): void {
    const isNew = this.#recordRev(message);
    if (message.seq > this.#seq) {
      // The message itself cannot be read, so its change is dropped.
      if (event !== "message:new") return;
      this.#seq = message.seq;
      this.deliver(event, message);
    } else if (isNew) {
      this.deliver(message.deletedAt ? "message:deleted" : "message:edited", message);
    }
  }

  /** Records a revision. False if it is known, or older than a known revision of the same message. */
  #recordRev({ seq, rev }: Message): boolean {
    if (rev <= this.#rev || this.#revsAhead.has(rev)) return false;
    const isReplaced = [...this.#revsAhead].some(([later, otherSeq]) => otherSeq === seq && later > rev);
    this.#revsAhead.set(rev, seq);
    if (this.#revsAhead.size > MAX_REVS_AHEAD) {
      // While changes have to be requested, a forgotten revision arrives again, but a skipped one would be lost.
      if (this.#hasMoreChanges) this.#revsAhead.delete(rev);
      else this.#rev = Math.min(...this.#revsAhead.keys());
    }
    this.#compactRevs();
    return !isReplaced;
  }

  #compactRevs(): void {
    for (const rev of this.#revsAhead.keys()) if (rev <= this.#rev) this.#revsAhead.delete(rev);
    while (this.#revsAhead.delete(this.#rev + 1)) this.#rev += 1;
  }
}
