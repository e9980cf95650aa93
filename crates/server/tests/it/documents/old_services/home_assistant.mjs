// A backend with sessions, rate limits, request counters and a support desk in Redis, under one prefix.
import { randomUUID } from 'node:crypto';
import { connect, serve } from './service.mjs';

const PREFIX = 'ha:';
const WEEK = 604_800;
const HOUR = 3600;

const client = connect();
const subscriber = connect();
const userKey = (user) => `${PREFIX}user:${user}`;

const functions = {
  logIn: async (user, device, address) => {
    await client.hset(userKey(user), {
      device_id: device,
      login_time: Date.now().toString(),
      last_seen: Date.now().toString(),
      active: 'true',
      ip_address: address,
    });
    await client.expire(userKey(user), WEEK);
  },
  // The answer to an API request: the reason of a refusal, or null.
  validate: async (user) => {
    const found = await client.hgetall(userKey(user));
    if (!found.device_id) return 'Session expired';
    if (found.active !== 'true') return 'User disabled';
    await client.multi().hset(userKey(user), 'last_seen', Date.now().toString()).expire(userKey(user), WEEK).exec();
    return null;
  },
  disable: (user) => client.hset(userKey(user), 'active', 'false'),
  enable: (user) => client.hset(userKey(user), 'active', 'true'),
  logOut: (user) => client.del(userKey(user)),
  session: (user) => client.hgetall(userKey(user)),

  // The first request of a fixed window sets its end.
  fixedWindow: async (id, limit, windowMs) => {
    const key = `${PREFIX}rate_limit:${id}`;
    const now = Date.now();
    await client.zremrangebyscore(key, 0, now - windowMs);
    const used = await client.zcard(key);
    if (used >= limit) return false;
    await client.zadd(key, now, now.toString());
    if (used === 0) await client.expire(key, Math.ceil(windowMs / 1000));
    return true;
  },
  slidingWindow: async (id, limit, windowMs) => {
    const key = `${PREFIX}sliding_limit:${id}`;
    const now = Date.now();
    await client.zremrangebyscore(key, 0, now - windowMs);
    if ((await client.zcard(key)) >= limit) return false;
    await client.multi().zadd(key, now, `${now}-${randomUUID()}`).expire(key, Math.ceil(windowMs / 1000)).exec();
    return true;
  },

  cacheMessage: (conversation, message) => {
    const key = `${PREFIX}chat:conversation:${conversation}:messages`;
    return client.multi().lpush(key, JSON.stringify(message)).ltrim(key, 0, 99).expire(key, HOUR).exec();
  },
  recentMessages: async (conversation, count) => {
    const entries = await client.lrange(`${PREFIX}chat:conversation:${conversation}:messages`, 0, count - 1);
    return entries.map((entry) => JSON.parse(entry));
  },

  countRequest: async (endpoint) => {
    await client.incrby(`${PREFIX}requests:total`, 1);
    await client.incrby(`${PREFIX}requests:endpoint:${endpoint}`, 1);
  },
  setAvailable: (admin) => client.set(`${PREFIX}admin:${admin}:presence`, 'online', 'EX', 1800),
  assign: (admin, conversation) =>
    client
      .multi()
      .sadd(`${PREFIX}admin:${admin}:assignments`, conversation)
      .zadd(`${PREFIX}chat:conversations:active`, Date.now(), conversation)
      .expire(`${PREFIX}admin:${admin}:assignments`, HOUR)
      .exec(),
  queueUnread: (conversation, weight) => client.zadd(`${PREFIX}chat:conversations:unread`, weight + Date.now(), conversation),
  cacheDashboard: (admin, figures) =>
    client
      .multi()
      .hset(`${PREFIX}chat:admin:dashboard:${admin}`, figures)
      .expire(`${PREFIX}chat:admin:dashboard:${admin}`, 300)
      .exec(),
  // Whether an admin can take another conversation.
  isFree: async (admin) => {
    const assigned = await client.scard(`${PREFIX}admin:${admin}:assignments`);
    return (await client.get(`${PREFIX}admin:${admin}:presence`)) === 'online' && assigned < 10;
  },
};

await serve({ client, subscriber, functions });
