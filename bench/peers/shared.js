// What both peers do alike: the server, and who may come in. As lean as socket.io lets it be: no HTTP framework, no client
// files, no compression, no recovery, and the HTTP request of a socket is let go, as its documentation advises.

const { createHmac, timingSafeEqual } = require("node:crypto");
const { createServer } = require("node:http");
const { Server } = require("socket.io");

const SECRET = process.env.PEER_SECRET;
const read = (part) => JSON.parse(Buffer.from(part, "base64url"));

// The user that a token signed with HS256 is for; throws when it is not valid.
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

// A server that lets in who has a token; `entered` may still refuse, or take its time.
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
  // More connections may be under way than Node lets wait by default.
  http.listen({ host, port: Number(port), backlog: 4096 });
  // The bench asks for it before it looks at the memory.
  process.on("SIGUSR2", () => globalThis.gc?.());
}

// A message as it is told to the room.
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
