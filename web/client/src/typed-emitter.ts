/** Event emitter with a type for each event. */
export class TypedEmitter<Events extends object> {
  #handlers = new Map<keyof Events, Set<(body: never) => void>>();

  /** Calls `handler` with each event of this name. Call the returned function to remove the handler. */
  on<E extends keyof Events>(event: E, handler: (body: Events[E]) => void): () => void {
    const all = this.#handlers.get(event) ?? new Set();
    this.#handlers.set(event, all.add(handler));
    return () => this.off(event, handler);
  }

  off<E extends keyof Events>(event: E, handler: (body: Events[E]) => void): void {
    this.#handlers.get(event)?.delete(handler);
  }

  protected notify<E extends keyof Events>(event: E, body: Events[E]): void {
    for (const handler of [...(this.#handlers.get(event) ?? [])] as ((body: Events[E]) => void)[]) {
      try {
        handler(body);
      } catch (error) {
        // An exception of one handler must not stop the others, so it is thrown later, outside of this loop.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
