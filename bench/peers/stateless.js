// Stateless socket.io server, the minimum of a chat: a signed token, rooms, acknowledged heartbeats, and messages that are
// sent to the room and acknowledged. It stores nothing, counts nothing and does not check membership.

const { serve, message } = require("./shared.js");

serve(
  async () => {},
  (io, socket) => {
    socket.on("heartbeat", (_body, ack) => ack({ ok: true, nextInMs: 20000 }));
    socket.on("conversation:join", ({ conversationId }, ack) => {
      socket.join(conversationId);
      ack({ ok: true });
    });
    socket.on("message:send", (body, ack) => {
      const sent = message(socket, body);
      io.to(body.conversationId).emit("message:new", sent);
      ack({ ok: true, message: sent });
    });
  },
);
