// Common part of both peers: the server and the token check. As lean as socket.io allows: no HTTP framework, no client
// files, no compression, no recovery, and the HTTP request of each socket is released, as its documentation advises.

const { createHmac, timingSafeEqual } = require("node:crypto");
const { createServer } = require("node:http");
const { Server } = require("socket.io");

const SECRET = process.env.PEER_SECRET;
const read = (part) => JSON.parse(Buffer.from(part, "base64url"));

// Returns the user of a token signed with HS256; throws if the token is not valid.
function bearer(token) {
  const [header, payload, signature] = token.split(".");
  const made = createHmac("sha256", SECRET).update(`${header}.${payload}`).digest();
  const given = Buffer.from(signature, "base64url");
  const signed = given.length === made.length && timingSafeEqual(given, made);
  if (!signed || read(header).alg !== "HS256") throw new Error("signature");
  const claims = read(payload);
  if (claims.exp * 1000 <= Date.now()) throw new Error("expired");
  return claims.sub;
}

// Starts a server that accepts clients with a valid token; `onConnect` may delay or reject a client.
function serve(entered, connected) {
  const http = createServer();
  const io = new Server(http, { serveClient: false, pingInterval: 25000, pingTimeout: 20000 });
  io.engine.on("connection", (raw) => {
    raw.request = null;
  });
  io.use((socket, next) => {
    try {
      socket.data.user = bearer(socket.handshake.auth.token);
    } catch {
      return next(new Error("invalid_token"));
    }
    entered(io, socket).then(() => next(), next);
  });
  io.on("connection", (socket) => connected(io, socket));
  const [host, port] = process.env.PEER_LISTEN.split(":");
  // More connections may be pending than Node.js allows by default.
  http.listen({ host, port: Number(port), backlog: 4096 });
  // The benchmark requests a garbage collection before it reads the memory.
  process.on("SIGUSR2", () => globalThis.gc?.());
}

// Creates the message that is sent to the room.
let messages = 0;
function message(socket, { conversationId, content }) {
  messages += 1;
  return {
    id: `${process.pid}-${messages}`,
    conversationId,
    seq: messages,
    senderId: socket.data.user,
    content,
    createdAt: new Date().toISOString(),
  };
}

module.exports = { serve, message };
