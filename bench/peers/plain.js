// A plain socket.io server, the least that can be called a chat: a signed token, rooms, a heartbeat that is answered, a
// message that is told to everybody in the room and acknowledged. It keeps nothing, counts nothing and checks no membership.

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
      const told = message(socket, body);
      io.to(body.conversationId).emit("message:new", told);
      ack({ ok: true, message: told });
    });
  },
);
