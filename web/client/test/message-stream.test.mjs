// Order of the delivered messages of one conversation, for events that arrive in any order.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MessageStream } from "../dist/message-stream.js";

const message = (seq, rev = seq, more = {}) => ({ conversationId: "c", seq, rev, content: `${seq}.${rev}`, ...more });
const nextTick = () => new Promise((resolve) => setImmediate(resolve));

/** A stream that logs what it delivers, with a history of `rows`, two per page. */
function stream(known, rows = []) {
  const log = [];
  const reads = [];
  const readHistory = async (after) => {
    reads.push(after);
    const rest = rows.filter((row) => row.seq > after);
    return { messages: rest.slice(0, 2), hasMore: rest.length > 2 };
  };
  const deliver = (event, { seq, rev }) => log.push(`${event.slice(8)} ${seq}.${rev}`);
  return { log, reads, stream: new MessageStream(deliver, readHistory, known) };
}

test("messages are delivered once and in order", () => {
  const { log, reads, stream: it } = stream({ seq: 1, rev: 1 });
  for (const seq of [1, 2, 2, 3, 1]) it.receive("message:new", message(seq));
  assert.deepEqual(log, ["new 2.2", "new 3.3"]);
  assert.deepEqual(reads, []);
  assert.deepEqual(it.position, { seq: 3, rev: 3 });
});

test("a gap is read from the history before later messages are delivered", async () => {
  const { log, stream: it } = stream({ seq: 1, rev: 1 }, [2, 3, 4, 5, 6].map((seq) => message(seq)));
  it.receive("message:new", message(6));
  it.receive("message:new", message(7));
  assert.deepEqual(log, []);
  await nextTick();
  assert.deepEqual(log, ["new 2.2", "new 3.3", "new 4.4", "new 5.5", "new 6.6", "new 7.7"]);
  assert.deepEqual(it.position, { seq: 7, rev: 7 });
});

test("messages that cannot be read are skipped and do not stop the stream", async () => {
  const { log, stream: it } = stream({ seq: 1, rev: 1 });
  it.receive("message:new", message(9));
  await nextTick();
  it.receive("message:new", message(10));
  assert.deepEqual(log, ["new 9.9", "new 10.10"]);
});

test("events that arrive during a join are delivered after the missed messages", async () => {
  const { log, stream: it } = stream();
  it.receive("message:new", message(4));
  it.receive("message:edited", message(1, 5));
  await it.onJoined({ lastSeq: 4, rev: 5, hasMore: false, missed: [message(1, 5), message(3), message(4)] }, { seq: 2, rev: 2 });
  it.receive("message:new", message(5, 6));
  assert.deepEqual(log, ["edited 1.5", "new 3.3", "new 4.4", "new 5.6"]);
  assert.deepEqual(it.position, { seq: 5, rev: 6 });
});

test("a join without a position starts at the last message", async () => {
  const { log, stream: it } = stream();
  await it.onJoined({ lastSeq: 8, rev: 11, hasMore: false, missed: [] });
  it.receive("message:new", message(8));
  it.receive("message:new", message(9, 12));
  assert.deepEqual(log, ["new 9.12"]);
  assert.deepEqual(it.position, { seq: 9, rev: 12 });
});

test("all pages of missed messages are read before live events are delivered", async () => {
  const { log, stream: it } = stream({ seq: 1, rev: 1 }, [2, 3, 4, 5].map((seq) => message(seq)));
  it.receive("message:new", message(2));
  const resumed = it.onResumed({ lastSeq: 5, rev: 9, hasMore: true });
  it.receive("message:new", message(6, 10));
  await resumed;
  assert.deepEqual(log, ["new 2.2", "new 3.3", "new 4.4", "new 5.5", "new 6.10"]);
  assert.deepEqual(it.position, { seq: 6, rev: 10 });
});

test("a change is delivered once, and a later revision does not hide an earlier one of another message", () => {
  const { log, stream: it } = stream({ seq: 3, rev: 3 });
  it.receive("message:edited", message(1, 5));
  assert.deepEqual(it.position, { seq: 3, rev: 3 }, "revision 4 is not known yet");
  it.receive("message:edited", message(1, 5));
  it.receive("message:deleted", message(2, 4, { deletedAt: "2026-01-02T03:04:05.678Z" }));
  assert.deepEqual(log, ["edited 1.5", "deleted 2.4"]);
  assert.deepEqual(it.position, { seq: 3, rev: 5 });
});

test("a replaced revision that never arrives does not stop the position", () => {
  const { stream: it } = stream({ seq: 1, rev: 1 });
  for (let rev = 3; rev < 1100; rev += 1) it.receive("message:edited", message(1, rev));
  assert.equal(it.position.rev, 1099);
});

test("changes that still have to be requested are not skipped when many messages are read", async () => {
  const { stream: it } = stream({ seq: 1, rev: 1 }, Array.from({ length: 2000 }, (_, n) => message(n + 2, n + 600)));
  it.receive("message:edited", message(1, 2));
  await it.onResumed({ lastSeq: 2001, rev: 2, hasMore: true });
  assert.deepEqual(it.position, { seq: 2001, rev: 2 });
  await it.onJoined({ lastSeq: 2001, rev: 2599, hasMore: false, missed: [message(1, 500)] }, it.position);
  assert.deepEqual(it.position, { seq: 2001, rev: 2599 });
});

test("a missed deletion is delivered as message:deleted", async () => {
  const { log, stream: it } = stream();
  const missed = [message(1, 4, { deletedAt: "2026-01-02T03:04:05.678Z" }), message(3, 3)];
  await it.onJoined({ lastSeq: 3, rev: 4, hasMore: false, missed }, { seq: 2, rev: 2 });
  assert.deepEqual(log, ["deleted 1.4", "new 3.3"]);
});
