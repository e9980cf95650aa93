// Code that the types must accept or reject. The compiler checks it; it is not run.

import { connect, type Message } from "../dist/index.js";

const client = connect({ url: "http://127.0.0.1:7070", token: async () => "token" });

client.on("message:new", (message) => message satisfies Message);
client.on("unread", (update) => ("count" in update ? update.total : update.lastSeq) satisfies number);
client.on("connected", ({ recovered }) => recovered satisfies boolean);
// @ts-expect-error: unknown event
client.on("message:gone", () => {});
// @ts-expect-error: a message has no field `number`
client.on("message:new", ({ number }) => number);

const { message } = await client.emit("message:send", { conversationId: "c", content: "Pizza?" });
message.seq satisfies number;
(await client.emit("heartbeat", {})).nextInMs satisfies number;
// @ts-expect-error: `content` is a string
await client.emit("message:send", { conversationId: "c", content: 1 });
// @ts-expect-error: `conversationId` is missing
await client.emit("message:read", {});
// @ts-expect-error: `conversation:join` has a method of its own
await client.emit("conversation:join", { conversationId: "c" });
// @ts-expect-error: missed messages are delivered as events
(await client.join("c", { seq: 1 })).missed;
