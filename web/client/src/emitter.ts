/** Handlers by event. */
export class Emitter<Events extends object> {
  #handlers = new Map<keyof Events, Set<(body: never) => void>>();

  /** Calls `handler` with each event of this name; what is returned ends that. */
  on<E extends keyof Events>(event: E, handler: (body: Events[E]) => void): () => void {
    const all = this.#handlers.get(event) ?? new Set();
    this.#handlers.set(event, all.add(handler));
    return () => this.off(event, handler);
  }

  off<E extends keyof Events>(event: E, handler: (body: Events[E]) => void): void {
    this.#handlers.get(event)?.delete(handler);
  }

  protected tell<E extends keyof Events>(event: E, body: Events[E]): void {
    for (const handler of [...(this.#handlers.get(event) ?? [])] as ((body: Events[E]) => void)[]) {
      try {
        handler(body);
      } catch (error) {
        // A handler that throws is the page's own fault, and must not keep the next message from the others.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
