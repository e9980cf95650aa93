// A chat application that asks before each push who is online: presence, typing and runs of jobs in Redis.
import { connect, serve } from './service.mjs';

const PRESENCE_SECONDS = 300;
const TYPING_SECONDS = 3;
const TYPING_INTERVAL_MS = 2000;
const THROTTLE_CLEANUP_MS = 5 * 60_000;

const options = {
  retryStrategy: (attempt) => Math.min(attempt * 50, 2000),
  maxRetriesPerRequest: 3,
  enableReadyCheck: true,
  lazyConnect: true,
};
const client = connect(options);
const subscriber = connect(options);
await client.connect();

const presenceKey = (user) => `presence:${user}`;
const typingKey = (conversation, user) => `typing:${conversation}:${user}`;

// Time of the last written start of each user and conversation.
const lastStarts = new Map();
setInterval(() => {
  const end = Date.now() - TYPING_INTERVAL_MS;
  for (const [key, at] of lastStarts) if (at < end) lastStarts.delete(key);
}, THROTTLE_CLEANUP_MS).unref();

const functions = {
  // A client has connected, or has sent a heartbeat.
  setOnline: (user) =>
    client.setex(
      presenceKey(user),
      PRESENCE_SECONDS,
      JSON.stringify({ userId: user, status: 'online', lastSeen: Date.now() }),
    ),
  status: async (user) => ((await client.get(presenceKey(user))) ? 'online' : 'offline'),
  document: async (user) => JSON.parse(await client.get(presenceKey(user))),
  disconnect: (user) => client.del(presenceKey(user)),
  // Users of a list who get a push: those who are offline.
  pushTargets: async (users) => {
    const statuses = await Promise.all(users.map(functions.status));
    return users.filter((_, nth) => statuses[nth] === 'offline');
  },

  startTyping: (conversation, user, username) => {
    const key = typingKey(conversation, user);
    const timestamp = Date.now();
    if (timestamp - (lastStarts.get(key) ?? 0) < TYPING_INTERVAL_MS) return 'throttled';
    lastStarts.set(key, timestamp);
    return client.setex(key, TYPING_SECONDS, JSON.stringify({ userId: user, username, timestamp }));
  },
  stopTyping: (conversation, user) => {
    lastStarts.delete(typingKey(conversation, user));
    return client.del(typingKey(conversation, user));
  },
  typingUsers: async (conversation) => {
    const keys = await client.keys(`typing:${conversation}:*`);
    if (keys.length === 0) return [];
    const values = await client.mget(...keys);
    const documents = values.filter(Boolean).map((value) => JSON.parse(value));
    return documents.sort((a, b) => (a.userId < b.userId ? -1 : 1));
  },

  // Runs a job, unless its last run is younger than the interval.
  runJob: async (job, interval) => {
    const key = `cron:last-run:${job}`;
    const lastRun = await client.get(key);
    const now = Date.now();
    if (lastRun && now - parseInt(lastRun, 10) < interval) return 'skipped';
    await client.set(key, now.toString());
    return 'run';
  },
};

await serve({ client, subscriber, functions });
