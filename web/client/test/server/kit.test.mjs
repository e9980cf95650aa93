// The TypeScript client with a real Parlor server.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { connect } from "../../dist/index.js";
import { Parlor, token, waitUntil } from "./parlor-process.mjs";

const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, n) => from + n);
const longTimeout = { timeout: 300_000 };

/** Client of a user that logs its message events. */
function client(test, parlor, user, options = {}) {
  const it = connect({ url: parlor.url, token: token(user), socket: { transports: ["websocket"] }, ...options });
  const log = [];
  const logEvent = (event, short) =>
    it.on(event, (...args) => {
      assert.equal(args.length, 1, "a handler gets only the body");
      log.push(short(args[0]));
    });
  logEvent("message:new", ({ content }) => content);
  logEvent("message:edited", ({ seq, content }) => `${seq} is now ${content}`);
  logEvent("message:deleted", ({ seq }) => `${seq} is gone`);
  test.after(() => it.close());
  return { it, log };
}

const reconnected = (it) => new Promise((resolve) => it.on("connected", resolve));

describe("the TypeScript client", { concurrency: 4 }, () => {
test("two users exchange messages", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    const [alice, bob] = ["alice", "bob"].map((user) => client(test, parlor, user));
    await Promise.all([alice.it.join("c"), bob.it.join("c")]);
    const sent = await alice.it.emit("message:send", { conversationId: "c", content: "Pizza?" });
    assert.equal(sent.message.seq, 1);
    assert.ok(sent.message.clientId, "the client sets a clientId, so that the message can be sent again");
    await bob.it.emit("message:send", { conversationId: "c", content: "Yes!" });
    await waitUntil("both users have both messages", () => alice.log.length === 2 && bob.log.length === 2);
    assert.deepEqual([alice.log, bob.log], [["Pizza?", "Yes!"], ["Pizza?", "Yes!"]]);
    assert.deepEqual(alice.it.positions(), { c: { seq: 2, rev: 2 } });
    assert.deepEqual(await bob.it.emit("message:read", { conversationId: "c" }), { unread: 0, total: 0 });
  });

  test("a rejected request throws an error with its code", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    const { it } = client(test, parlor, "carol");
    await assert.rejects(it.join("c"), { name: "ParlorError", code: "not_a_member" });
    assert.deepEqual(it.positions(), {}, "a rejected join has no position");
    const stranger = client(test, parlor, "alice", { token: "nonsense" });
    await assert.rejects(stranger.it.ready, { code: "token_invalid" });
  });

  test("messages and changes during a restart are delivered before later messages", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    let door = Promise.resolve();
    const { it, log } = client(test, parlor, "alice", { token: () => door.then(() => token("alice")) });
    await it.join("c");
    await parlor.say("bob", "c", "1", "2", "3");
    await waitUntil("three messages have arrived", () => log.length === 3);

    // Without a token the client cannot reconnect before all messages are sent.
    let open;
    door = new Promise((resolve) => (open = resolve));
    const again = reconnected(it);
    await parlor.end("SIGKILL");
    await parlor.begin();
    await parlor.say("bob", "c", ...numbers(4, 620).map(String));
    await parlor.call("bob", "PATCH", "/conversations/c/messages/2", { content: "two" });
    await parlor.call("bob", "DELETE", "/conversations/c/messages/3");
    open();
    assert.deepEqual(await again, { recovered: false });
    await parlor.say("bob", "c", "621");
    await waitUntil("the last message has arrived", () => log.includes("621"));
    const changes = log.filter((entry) => entry.includes(" is "));
    assert.deepEqual(changes.sort(), ["2 is now two", "3 is gone"]);
    assert.deepEqual(log.filter((entry) => !entry.includes(" is ")), numbers(1, 621).map(String));
    await waitUntil("all changes are known", () => it.positions().c.rev === 623);
  });

  test("more changes than one reply contains are delivered", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    await parlor.say("bob", "c", ...numbers(1, 510).map(() => "first"));
    const { it, log } = client(test, parlor, "alice");
    await it.join("c");
    const resume = it.positions();
    it.close();
    for (const seq of numbers(1, 510)) await parlor.call("bob", "PATCH", `/conversations/c/messages/${seq}`, { content: "second" });
    const again = client(test, parlor, "alice", { resume });
    await waitUntil("all changes are known", () => again.it.positions().c.rev === 1020);
    assert.deepEqual(again.log.sort(), numbers(1, 510).map((seq) => `${seq} is now second`).sort());
    assert.deepEqual(log, []);
  });

  test("a short connection loss is recovered without duplicates", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    const { it, log } = client(test, parlor, "alice");
    await it.join("c");
    await parlor.say("bob", "c", "1");
    await waitUntil("the first message has arrived", () => log.length === 1);
    const again = reconnected(it);
    it.socket.io.engine.transport.ws.terminate();
    await parlor.say("bob", "c", "2", "3");
    assert.deepEqual(await again, { recovered: true });
    await parlor.say("bob", "c", "4");
    await waitUntil("the last message has arrived", () => log.includes("4"));
    assert.deepEqual(log, ["1", "2", "3", "4"]);
  });

  test("a new client resumes from the positions of an earlier one", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    const first = client(test, parlor, "alice");
    await first.it.join("c");
    await parlor.say("bob", "c", "1", "2");
    await waitUntil("both messages have arrived", () => first.log.length === 2);
    const resume = first.it.positions();
    first.it.close();
    await parlor.say("bob", "c", "3");
    const { it, log } = client(test, parlor, "alice", { resume });
    await waitUntil("the third message has arrived", () => log.length > 0);
    await parlor.say("bob", "c", "4");
    await waitUntil("the fourth message has arrived", () => log.length > 1);
    assert.deepEqual(log, ["3", "4"]);
    assert.deepEqual(it.positions(), { c: { seq: 4, rev: 4 } });
  });

  test("a message whose acknowledgement was lost is sent once", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    const { it, log } = client(test, parlor, "alice");
    await it.join("c");
    const sent = it.emit("message:send", { conversationId: "c", content: "once" });
    // Breaks the connection before the acknowledgement can arrive.
    it.socket.io.engine.transport.ws.terminate();
    assert.equal((await sent).message.seq, 1);
    await waitUntil("the message has arrived", () => log.length > 0);
    const { messages } = await it.emit("history", { conversationId: "c" });
    assert.deepEqual(messages.map(({ content }) => content), ["once"]);
  });

  test("watched users are still watched after a reconnect", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    const { it } = client(test, parlor, "alice");
    const statuses = [];
    it.on("presence", ({ users }) => statuses.push(...users.map(({ userId, status }) => `${userId} ${status}`)));
    const { users } = await it.watchPresence(["bob"]);
    assert.deepEqual(users.map(({ userId, status }) => [userId, status]), [["bob", "offline"]]);
    const again = reconnected(it);
    await parlor.end("SIGKILL");
    await parlor.begin();
    await again;
    const bob = client(test, parlor, "bob");
    await waitUntil("bob is online", () => statuses.includes("bob online"));
    bob.it.close();
    await waitUntil("bob is offline", () => statuses.at(-1) === "bob offline");
  });

  test("typing is delivered, and ends after a pause or with a message", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    const [alice, bob] = ["alice", "bob"].map((user) => client(test, parlor, user));
    await Promise.all([alice.it.join("c"), bob.it.join("c")]);
    const typingEvents = [];
    bob.it.on("typing", ({ userId, username, typing }) => typingEvents.push([userId, username, typing]));
    alice.it.setTyping("c");
    alice.it.setTyping("c");
    await waitUntil("typing has started", () => typingEvents.length > 0);
    await waitUntil("typing has ended", () => typingEvents.at(-1)[2] === false);
    assert.deepEqual(typingEvents[0], ["alice", "alice", true]);
    alice.it.setTyping("c");
    await waitUntil("typing has started again", () => typingEvents.at(-1)[2] === true);
    await alice.it.emit("message:send", { conversationId: "c", content: "done" });
    await waitUntil("the message has ended typing", () => typingEvents.at(-1)[2] === false);
  });

  test("a token is refreshed before it expires", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    let asked = 0;
    const fresh = async () => {
      asked += 1;
      return token("alice", asked > 2 ? 600 : 4);
    };
    const { it, log } = client(test, parlor, "alice", { token: fresh });
    const losses = [];
    it.on("disconnected", (reason) => losses.push(reason));
    await it.join("c");
    const began = Date.now();
    await waitUntil("two tokens were refreshed and the first has expired", () => asked > 2 && Date.now() - began > 5000);
    await parlor.say("bob", "c", "still there?");
    await waitUntil("the message has arrived", () => log.length > 0);
    assert.deepEqual(losses, []);
  });

  test("a logout closes the client for good", longTimeout, async (test) => {
    const parlor = await Parlor.start(test);
    await parlor.conversation("c");
    const { it } = client(test, parlor, "alice");
    const reasons = [];
    it.on("session:closed", ({ reason }) => reasons.push(reason));
    await it.join("c");
    const over = new Promise((resolve) => it.on("closed", resolve));
    await parlor.call("alice", "DELETE", "/sessions/me");
    assert.equal((await over).code, "logout");
    assert.deepEqual(reasons, ["logout"]);
    await assert.rejects(it.emit("heartbeat", {}), { code: "logout" });
  });

  test("a node shutdown reconnects its clients without an offline event", longTimeout, async (test) => {
    const parlor = await Parlor.start(test, { PARLOR_PRESENCE__GRACE: "30s" });
    await parlor.conversation("c");
    const [alice, bob] = ["alice", "bob"].map((user) => client(test, parlor, user));
    await Promise.all([alice.it.join("c"), bob.it.join("c")]);
    const seen = [];
    bob.it.on("presence", ({ users }) => seen.push(...users.map(({ status }) => status)));
    await bob.it.watchPresence(["alice"]);
    const again = Promise.all([reconnected(alice.it), reconnected(bob.it)]);
    await parlor.end("SIGTERM");
    await parlor.begin();
    await again;
    await alice.it.emit("message:send", { conversationId: "c", content: "here we are" });
    await waitUntil("bob has the message", () => bob.log.length === 1);
    await waitUntil("bob sees alice online", () => seen.at(-1) === "online");
    assert.ok(!seen.includes("offline"), `${seen}`);
  });
});
