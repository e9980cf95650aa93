// A gateway of chat rooms: the sockets of each user, and a cache of the members in its own database.
import { connect, serve } from './service.mjs';

const SERVER_ID = 'gateway-1';
const PRESENCE_SECONDS = 60;
const MEMBERSHIP_SECONDS = 30;

const client = connect();
const subscriber = connect();

const presenceKey = (user) => `presence:user:${user}`;
const membershipKey = (room, user) => `membership:${room}:${user}`;
const now = () => new Date().toISOString();

// Rows of the database, and how often they were read.
const members = new Set();
let rowReads = 0;

const writeSocket = async (user, socket, value) => {
  await client.hset(presenceKey(user), socket, JSON.stringify(value));
  await client.expire(presenceKey(user), PRESENCE_SECONDS);
};

const functions = {
  connect: (user, socket) => writeSocket(user, socket, { serverId: SERVER_ID, connectedAt: now() }),
  heartbeat: (user, socket) => writeSocket(user, socket, { refreshedAt: now() }),
  disconnect: async (user, socket) => {
    await client.hdel(presenceKey(user), socket);
    if ((await client.hlen(presenceKey(user))) === 0) await client.del(presenceKey(user));
  },
  isOnline: async (user) => (await client.exists(presenceKey(user))) === 1,

  isMember: async (room, user) => {
    const cached = await client.get(membershipKey(room, user));
    if (cached !== null) return cached === '1';
    rowReads += 1;
    const isMember = members.has(`${room} ${user}`);
    await client.set(membershipKey(room, user), isMember ? '1' : '0', 'EX', MEMBERSHIP_SECONDS);
    return isMember;
  },
  join: (room, user) => {
    members.add(`${room} ${user}`);
    return client.del(membershipKey(room, user));
  },
  rowReads: () => rowReads,
};

await serve({ client, subscriber, functions });
