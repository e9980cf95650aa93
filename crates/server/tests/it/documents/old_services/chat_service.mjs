// A chat service in front of many sockets: presence, typing, rate limit, caches, unread counts and events in Redis.
import { connect, serve } from './service.mjs';

const MESSAGE_RATE_LIMIT = 20;
const MESSAGE_RATE_WINDOW = 60_000;
const MAX_RECENT = 100;
const HOUR = 3600;

const options = { retryStrategy: (attempt) => Math.min(50 * attempt, 2000), maxRetriesPerRequest: null };
const client = connect(options);
const publisher = connect(options);
const subscriber = connect(options);

const now = () => new Date().toISOString();
const announce = (event, userId) => publisher.publish(`events:user.${event}`, JSON.stringify({ userId, timestamp: now() }));

const functions = {
  isUserOnline: async (user) => (await client.get(`user:${user}:online`)) === 'true',
  addUserSocket: async (user, socket) => {
    await client.sadd(`user:${user}:sockets`, socket);
    await client.set(`socket:${socket}:user`, user);
    await client.set(`lastseen:${user}`, now());
    if (!(await functions.isUserOnline(user))) {
      await client.set(`user:${user}:online`, 'true');
      await announce('online', user);
    }
  },
  removeUserSocket: async (user, socket) => {
    await client.srem(`user:${user}:sockets`, socket);
    await client.del(`socket:${socket}:user`);
    await client.set(`lastseen:${user}`, now());
    if ((await client.scard(`user:${user}:sockets`)) === 0) {
      await client.set(`user:${user}:online`, 'false');
      await announce('offline', user);
    }
  },
  userOfSocket: (socket) => client.get(`socket:${socket}:user`),
  startTyping: (conversation, user) => client.set(`typing:${conversation}:${user}`, '1', 'EX', 5),
  typingUsers: async (conversation) => {
    const prefix = `typing:${conversation}:`;
    return (await client.keys(`${prefix}*`)).map((key) => key.slice(prefix.length)).sort();
  },
  checkMessageRateLimit: async (user) => {
    const sent = await client.incr(`rate:message:${user}`);
    if (sent === 1) await client.pexpire(`rate:message:${user}`, MESSAGE_RATE_WINDOW);
    return sent <= MESSAGE_RATE_LIMIT;
  },
  cacheMessage: async (conversation, message) => {
    const key = `messages:${conversation}:recent`;
    await client.lpush(key, JSON.stringify(message));
    await client.ltrim(key, 0, MAX_RECENT - 1);
    await client.expire(key, HOUR);
  },
  recentMessages: async (conversation, count) =>
    (await client.lrange(`messages:${conversation}:recent`, 0, count - 1)).map((entry) => JSON.parse(entry)),
  countUnread: async (user, conversation) => {
    await client.incr(`unread:${user}:${conversation}`);
    await client.incrby(`unread:${user}:total`, 1);
  },
  // Counts of both sides may be missing, which means 0.
  unread: async (user, conversation) => Number((await client.get(`unread:${user}:${conversation}`)) ?? 0),
  readMessages: async (user, conversation) => {
    const read = await functions.unread(user, conversation);
    await client.del(`unread:${user}:${conversation}`);
    await client.decrby(`unread:${user}:total`, read);
  },
  isParticipant: async (conversation, user) =>
    (await client.sismember(`conversation:${conversation}:participants`, user)) === 1,
  participants: async (conversation) => (await client.smembers(`conversation:${conversation}:participants`)).sort(),
  publishMessageCreated: (event) => publisher.publish('events:message.created', JSON.stringify(event)),
  isHealthy: async () => (await client.ping()) === 'PONG',
};

await serve({ client, subscriber, functions });
