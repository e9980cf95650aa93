// A real Parlor server for a test, with its own port and folder. The environment variable PARLOR is the path of the
// binary.

import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const SECRET = "one secret for all that is long enough";
const TEST_TIMEOUT = 30_000;

/** Token of a user with a lifetime in seconds. */
export function token(user, lifetimeSecs = 600) {
  const now = Math.floor(Date.now() / 1000);
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = { sub: user, name: user, iat: now - 1, exp: now + lifetimeSecs };
  const signed = `${part({ alg: "HS256", typ: "JWT" })}.${part(claims)}`;
  return `${signed}.${createHmac("sha256", SECRET).update(signed).digest("base64url")}`;
}

/** Waits until the condition holds. */
export async function waitUntil(what, condition) {
  const end = Date.now() + TEST_TIMEOUT;
  for (;;) {
    if (await condition()) return;
    if (Date.now() > end) throw new Error(`timeout after ${TEST_TIMEOUT} ms: ${what}`);
    await sleep(10);
  }
}

export class Parlor {
  #folder = mkdtempSync(join(tmpdir(), "parlor-kit-"));
  #process;

  /** Starts a server and waits until it is ready. It is killed when the test ends. */
  static async start(test, settings = {}) {
    const it = new Parlor();
    it.settings = settings;
    const probe = createServer().listen(0, "127.0.0.1");
    await once(probe, "listening");
    it.url = `http://127.0.0.1:${probe.address().port}`;
    await new Promise((closed) => probe.close(closed));
    await it.begin();
    test.after(async () => {
      await it.end("SIGKILL");
      rmSync(it.#folder, { recursive: true, force: true });
    });
    return it;
  }

  async begin() {
    this.#process = spawn(process.env.PARLOR, ["serve"], {
      cwd: this.#folder,
      stdio: ["ignore", "ignore", "inherit"],
      env: {
        PARLOR_SERVER__HTTP: this.url.slice("http://".length),
        PARLOR_SERVER__GRPC: "",
        PARLOR_SERVER__DATA: join(this.#folder, "data"),
        PARLOR_AUTH__SECRET: SECRET,
        PARLOR_LIMITS__MESSAGES: "10000",
        PARLOR_LIMITS__HTTP: "10000",
        PARLOR_LOG__LEVEL: "error",
        // Tests kill the process, but not the operating system, so full sync is not needed.
        PARLOR_DATABASE__SYNCHRONOUS: "normal",
        ...this.settings,
      },
    });
    const child = this.#process;
    process.once("exit", () => child.kill("SIGKILL"));
    await waitUntil("Parlor is ready", () => fetch(`${this.url}/readyz`).then((it) => it.ok, () => false));
  }

  async end(signal) {
    const ended = once(this.#process, "exit");
    if (this.#process.exitCode === null && this.#process.signalCode === null && this.#process.kill(signal)) await ended;
  }

  /** Sends an HTTP request as a user. */
  async call(user, method, path, body) {
    const headers = { authorization: `Bearer ${token(user)}`, "content-type": "application/json" };
    const response = await fetch(`${this.url}/v1${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    const reply = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(reply)}`);
    return reply;
  }

  /** Creates a conversation of Alice and Bob, and their sessions. */
  async conversation(id) {
    for (const user of ["alice", "bob"]) await this.call(user, "POST", "/sessions", {});
    await this.call("alice", "POST", "/conversations", { id, kind: "group", members: ["bob"] });
  }

  async say(user, id, ...contents) {
    for (const content of contents) await this.call(user, "POST", `/conversations/${id}/messages`, { content });
  }
}
