// socket.io server that does the work of the documented Redis layers per event (presence, sessions, membership cache, rate
// limit, recent messages, unread counters, events for other services) with ioredis, in pipelines: one round trip per event,
// but two for a message, because the session, the rate limit and the members must be read first.
//
// Nothing is durable: Redis does not save here, and there is no database behind the caches, so every client that joins a
// conversation counts as a member. New unread counts are not sent to clients. Parlor does both.
//
//   connect     HGETALL user:{u} · HSET + EXPIRE user:{u} · HSET + EXPIRE presence:user:{u} · SET socket:{s}:user
//               · SET lastseen:{u} · PUBLISH events:user.online when it is the first socket
//   heartbeat   HSET + EXPIRE presence:user:{u}
//   join        GET membership:{c}:{u}, SET EX 30 when missing · SADD + EXPIRE conversation:{c}:participants
//   message     HGETALL user:{u} · INCR rate:message:{u} (PEXPIRE by the first) · GET membership:{c}:{u} · SMEMBERS
//               participants, then HSET + EXPIRE user:{u}, as documented for every request
//               · LPUSH + LTRIM + EXPIRE messages:{c}:recent · INCR unread:{m}:{c} and unread:{m}:total of each other member
//               · PUBLISH events:message.created
//   disconnect  HDEL + HLEN presence:user:{u} · DEL socket:{s}:user · SET lastseen:{u}, and after the last socket
//               DEL presence:user:{u} · PUBLISH events:user.offline

const Redis = require("ioredis");
const { serve, message } = require("./shared.js");

const RATE = 1_000_000;
const redis = new Redis(process.env.PEER_REDIS, { enableReadyCheck: false });

// Runs a pipeline and returns its replies; throws its first error.
async function run(pipeline) {
  const replies = await pipeline.exec();
  return replies.map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
}

const now = () => new Date().toISOString();

const isBlocked = (session) => session.status === "blocked" || session.active === "false";

async function entered(_io, socket) {
  const user = socket.data.user;
  const session = await redis.hgetall(`user:${user}`);
  if (isBlocked(session)) throw new Error("session_blocked");
  const time = Date.now();
  const fields = { device_id: socket.id, last_seen: time, status: "login", active: "true" };
  if (!session.login_time) fields.login_time = time;
  const device = JSON.stringify({ serverId: "gateway-1", connectedAt: now() });
  const pipeline = redis
    .pipeline()
    .hset(`user:${user}`, fields)
    .expire(`user:${user}`, 604800)
    .hset(`presence:user:${user}`, socket.id, device)
    .expire(`presence:user:${user}`, 60)
    .hlen(`presence:user:${user}`)
    .set(`socket:${socket.id}:user`, user, "EX", 60)
    .set(`lastseen:${user}`, now());
  const replies = await run(pipeline);
  if (replies[4] === 1) {
    redis.publish("events:user.online", JSON.stringify({ userId: user, timestamp: now() }));
  }
}

async function heartbeat(socket) {
  const key = `presence:user:${socket.data.user}`;
  const device = JSON.stringify({ serverId: "gateway-1", refreshedAt: now() });
  await run(redis.pipeline().hset(key, socket.id, device).expire(key, 60));
  return { ok: true, nextInMs: 20000 };
}

async function join(socket, { conversationId }) {
  const user = socket.data.user;
  const membership = `membership:${conversationId}:${user}`;
  const pipeline = redis.pipeline();
  if ((await redis.get(membership)) === null) pipeline.set(membership, "1", "EX", 30);
  const participants = `conversation:${conversationId}:participants`;
  await run(pipeline.sadd(participants, user).expire(participants, 3600));
  socket.join(conversationId);
  return { ok: true };
}

async function send(io, socket, body) {
  const { user } = socket.data;
  const { conversationId } = body;
  const rate = `rate:message:${user}`;
  const membership = `membership:${conversationId}:${user}`;
  const participants = `conversation:${conversationId}:participants`;
  const [session, count, member, members] = await run(
    redis.pipeline().hgetall(`user:${user}`).incr(rate).get(membership).smembers(participants),
  );
  if (!session.device_id) return { ok: false, error: { code: "session_expired" } };
  if (isBlocked(session)) return { ok: false, error: { code: "session_blocked" } };
  if (count > RATE) return { ok: false, error: { code: "rate_limited" } };
  if (member === "0") return { ok: false, error: { code: "not_a_member" } };
  const sent = message(socket, body);
  const recent = `messages:${conversationId}:recent`;
  const pipeline = redis.pipeline().hset(`user:${user}`, "last_seen", Date.now()).expire(`user:${user}`, 604800);
  if (count === 1) pipeline.pexpire(rate, 60000);
  if (member === null) pipeline.set(membership, "1", "EX", 30);
  pipeline.lpush(recent, JSON.stringify(sent)).ltrim(recent, 0, 99).expire(recent, 3600);
  for (const other of members) {
    if (other !== user) pipeline.incr(`unread:${other}:${conversationId}`).incr(`unread:${other}:total`);
  }
  const event = { conversationId, messageId: sent.id, senderId: user, participantIds: members };
  pipeline.publish("events:message.created", JSON.stringify(event));
  await run(pipeline);
  io.to(conversationId).emit("message:new", sent);
  return { ok: true, message: sent };
}

async function left(socket) {
  const { user } = socket.data;
  const presence = `presence:user:${user}`;
  const pipeline = redis
    .pipeline()
    .hdel(presence, socket.id)
    .hlen(presence)
    .del(`socket:${socket.id}:user`)
    .set(`lastseen:${user}`, now());
  const replies = await run(pipeline);
  if (replies[1] === 0) {
    const event = JSON.stringify({ userId: user, timestamp: now() });
    await run(redis.pipeline().del(presence).publish("events:user.offline", event));
  }
}

serve(entered, (io, socket) => {
  // Returns the error of a failed event to the client.
  const answer = (work) => async (body, ack) => {
    try {
      ack(await work(body));
    } catch (error) {
      ack({ ok: false, error: { code: "store_unavailable", message: String(error) } });
    }
  };
  socket.on("heartbeat", answer(() => heartbeat(socket)));
  socket.on("conversation:join", answer((body) => join(socket, body)));
  socket.on("message:send", answer((body) => send(io, socket, body)));
  socket.on("disconnect", () => left(socket).catch(() => {}));
});
