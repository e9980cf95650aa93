import { type Code, temporary } from "./events.js";

/** Why the server, or the kit itself, did not do something. Programs go by `code`, people by `message`. */
export class ParlorError extends Error {
  override readonly name = "ParlorError";

  constructor(
    /** A code of the server, why a session was closed, or one of the kit: `timeout`, `closed`, `token`. */
    readonly code: Code | (string & {}),
    message: string,
    /** When to try again. */
    readonly retryAfterMs?: number,
  ) {
    super(message);
  }

  /** Whether the same may succeed later. */
  get temporary(): boolean {
    return this.retryAfterMs !== undefined || temporary.has(this.code as Code);
  }

  /** What a refusal on the wire says. */
  static from(wire: { code?: unknown; message?: unknown; retryAfterMs?: unknown } | undefined): ParlorError {
    const { code = "internal", message = code, retryAfterMs } = wire ?? {};
    return new ParlorError(String(code), String(message), typeof retryAfterMs === "number" ? retryAfterMs : undefined);
  }
}
