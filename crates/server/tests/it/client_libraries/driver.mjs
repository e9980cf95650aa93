// Sockets of socket.io-client, controlled by a test with one JSON command per line.
//
// In:  {"id", "do": "open" | "emit" | "close" | "drop", "socket", …}
// Out: {"id", "answer"} or {"id", "error"} for each command, and {"source", "event", "args"} for each received event.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';

const { io } = createRequire(process.env.NODE_PACKAGES)('socket.io-client');
const PATIENCE = 20_000;
const sockets = new Map();
const say = (it) => process.stdout.write(JSON.stringify(it) + '\n');

const refusal = (error) => ({ message: error.message, ...error.data });

const actions = {
  open: ({ socket: name, url, auth, options }) =>
    new Promise((done, refuse) => {
      const socket = io(url, { auth, reconnection: false, forceNew: true, ...options });
      sockets.set(name, socket);
      socket.onAny((event, ...args) => say({ source: name, event, args }));
      socket.on('disconnect', (reason) => say({ source: name, event: 'disconnect', args: [reason] }));
      socket.once('connect', () => done({ sid: socket.id, recovered: socket.recovered }));
      socket.on('connect', () => say({ source: name, event: 'connect', args: [{ sid: socket.id, recovered: socket.recovered }] }));
      socket.once('connect_error', (error) => refuse(refusal(error)));
    }),
  emit: ({ socket, event, body }) => sockets.get(socket).timeout(PATIENCE).emitWithAck(event, body),
  close: async ({ socket }) => void sockets.get(socket).disconnect(),
  // Drops the connection without a disconnect packet.
  drop: async ({ socket }) => {
    const { transport } = sockets.get(socket).io.engine;
    if (transport.ws) transport.ws.terminate();
    else transport.onClose();
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, do: action, ...rest } = JSON.parse(line);
  actions[action](rest).then(
    (answer) => say({ id, answer: answer ?? null }),
    (error) => say({ id, error: error instanceof Error ? { message: String(error) } : error }),
  );
}
process.exit(0);
