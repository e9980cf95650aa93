// Random histories of one conversation, received over a connection that breaks again and again.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MessageStream } from "../dist/message-stream.js";

const HISTORY_COUNT = 1000;

/** Deterministic random numbers below `n` for a seed. */
function random(seed) {
  let state = seed * 2654435761;
  return (n) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) >>> 0) % n;
  };
}

test("each message is delivered once and in order, with its last version, through broken connections", async () => {
  for (let seed = 1; seed <= HISTORY_COUNT; seed += 1) await runHistory(seed);
});

async function runHistory(seed) {
  const below = random(seed);
  const rows = [];
  let rev = 0;
  const wire = []; // events that the server has sent and the client has not received
  const delivered = [];
  const deliverMessage = (event, { seq, rev }) => delivered.push({ event, seq, rev });
  const readHistory = async (after) => {
    for (let turns = below(4); turns > 0; turns -= 1) await null;
    const rest = rows.filter((row) => row.seq > after);
    return { messages: rest.slice(0, 2).map((row) => ({ ...row })), hasMore: rest.length > 2 };
  };
  const stream = new MessageStream(deliverMessage, readHistory);
  await stream.onJoined({ lastSeq: 0, rev: 0, hasMore: false, missed: [] });

  const send = () => {
    rev += 1;
    rows.push({ seq: rows.length + 1, rev });
    wire.push(["message:new", { ...rows.at(-1) }]);
  };
  const change = () => {
    if (rows.length === 0) return;
    rev += 1;
    const row = rows[below(rows.length)];
    row.rev = rev;
    wire.push(["message:edited", { ...row }]);
  };
  const deliver = () => {
    if (wire.length === 0) return;
    const [event, body] = wire.shift();
    if (event === "resumed") void stream.onResumed(body);
    else stream.receive(event, body);
    // Some events arrive twice.
    if (event !== "resumed" && below(8) === 0) stream.receive(event, body);
  };
  const reconnect = () => {
    wire.length = 0;
    const { seq, rev: known } = stream.position;
    const missed = rows.filter((row) => row.seq > seq);
    for (const row of rows.filter((row) => row.seq <= seq && row.rev > known)) wire.push(["message:edited", { ...row }]);
    for (const row of missed.slice(0, 3)) wire.push(["message:new", { ...row }]);
    wire.push(["resumed", { lastSeq: rows.length, rev, hasMore: missed.length > 3 }]);
  };

  for (let steps = 60; steps > 0; steps -= 1) {
    [send, send, change, deliver, deliver, deliver, deliver, reconnect][below(8)]();
    if (below(3) === 0) await null;
  }
  reconnect();
  while (wire.length > 0) deliver();
  for (let turns = 200; turns > 0; turns -= 1) await null;

  const created = delivered.filter(({ event }) => event === "message:new").map(({ seq }) => seq);
  assert.deepEqual(created, rows.map(({ seq }) => seq), `seed ${seed}: each message once and in order`);
  const last = new Map(delivered.map(({ seq, rev }) => [seq, rev]));
  for (const row of rows) assert.equal(last.get(row.seq), row.rev, `seed ${seed}: last version of message ${row.seq}`);
  const revs = delivered.map(({ rev }) => rev);
  assert.equal(new Set(revs).size, revs.length, `seed ${seed}: each revision once`);
  assert.deepEqual(stream.position, { seq: rows.length, rev }, `seed ${seed}: the position is the end`);
}
