// What the types allow, and what not. Checked, not run.

import { connect, type Message } from "../dist/index.js";

const client = connect({ url: "http://127.0.0.1:7070", token: async () => "token" });

client.on("message:new", (message) => message satisfies Message);
client.on("unread", (news) => ("count" in news ? news.total : news.lastSeq) satisfies number);
client.on("connected", ({ recovered }) => recovered satisfies boolean);
// @ts-expect-error: there is no such event
client.on("message:gone", () => {});
// @ts-expect-error: a message has a number
client.on("message:new", ({ number }) => number);

const { message } = await client.emit("message:send", { conversationId: "c", content: "Pizza?" });
message.seq satisfies number;
(await client.emit("heartbeat", {})).nextInMs satisfies number;
// @ts-expect-error: a text is a text
await client.emit("message:send", { conversationId: "c", content: 1 });
// @ts-expect-error: where?
await client.emit("message:read", {});
// @ts-expect-error: a join is remembered, by a method of its own
await client.emit("conversation:join", { conversationId: "c" });
// @ts-expect-error: what was missed comes as events
(await client.join("c", { seq: 1 })).missed;
