import { type ErrorCode, retryableCodes } from "./events.js";

/** Error of the server or of the client. Use `code` in programs; `message` is for people and may change. */
export class ParlorError extends Error {
  override readonly name = "ParlorError";

  constructor(
    /** Error code of the server, reason of `session:closed`, or a code of the client: `timeout` or `closed`. */
    readonly code: ErrorCode | (string & {}),
    message: string,
    /** Milliseconds to wait before a retry, if known. */
    readonly retryAfterMs?: number,
  ) {
    super(message);
  }

  /** True if the same request can succeed later. */
  get isRetryable(): boolean {
    return this.retryAfterMs !== undefined || retryableCodes.has(this.code as ErrorCode);
  }

  /** Converts the error of an acknowledgement or of `connect_error`. */
  static from(wire: { code?: unknown; message?: unknown; retryAfterMs?: unknown } | undefined): ParlorError {
    const { code = "internal", message = code, retryAfterMs } = wire ?? {};
    return new ParlorError(String(code), String(message), typeof retryAfterMs === "number" ? retryAfterMs : undefined);
  }
}
