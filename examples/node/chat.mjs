// A chat in the terminal: prints the messages of others and sends the lines that you type.
//
//   node examples/node/chat.mjs http://127.0.0.1:7070 "$(parlor token --user alice --name Alice)" lunch
//
// Needs the TypeScript client: run `make web`. In your own program: import { connect } from "@parlor/client".

import { createInterface } from "node:readline";

import { connect } from "../../web/client/dist/index.js";

const [url, token, conversationId] = process.argv.slice(2);
if (!conversationId) {
  console.error("usage: node chat.mjs <url> <token> <conversation>");
  process.exit(2);
}

const client = connect({ url, token });
const names = new Map();

client.on("connected", ({ recovered }) => console.log(recovered ? "* connection recovered" : "* connected"));
client.on("disconnected", ({ reason }) => console.log(`* connection lost (${reason}), reconnecting`));
client.on("closed", ({ code, message }) => {
  if (code !== "closed") console.log(`* closed: ${message}`);
  process.exit(code === "closed" ? 0 : 1);
});
client.on("message:new", (message) => {
  print(message);
  // Your other devices receive the new unread count. A lost connection is no error: the next message repeats this.
  client.emit("message:read", { conversationId }).catch(() => {});
});
client.on("message:edited", (message) => print(message, " (edited)"));
client.on("message:deleted", ({ seq }) => console.log(`* message ${seq} was deleted`));
client.on("typing", ({ userId, username, typing }) => {
  names.set(userId, username ?? userId);
  if (typing) console.log(`* ${names.get(userId)} is typing`);
});

function print({ senderId, content }, suffix = "") {
  console.log(`${names.get(senderId) ?? senderId}: ${content}${suffix}`);
}

/** Sends a POST request. Membership is changed over HTTP, not over Socket.IO. */
async function post(path, body) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await fetch(`${url}/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const { code, detail } = response.ok ? {} : await response.json();
  return { code, message: detail };
}

/** Creates the conversation, or becomes a member if it exists already. */
async function becomeMember() {
  const created = await post("/conversations", { id: conversationId, kind: "group", open: true });
  const answer = created.code === "conversation_exists" ? await post(`/conversations/${conversationId}/join`, {}) : created;
  if (answer.code) throw answer;
}

async function enter() {
  await client.ready;
  await becomeMember();
  const { messages } = await client.emit("history", { conversationId, limit: 10 });
  messages.forEach((message) => print(message));
  // Join at the end of the history, so that messages sent in between are delivered, too.
  const { unread } = await client.join(conversationId, { seq: messages.at(-1)?.seq ?? 0 });
  console.log(`* in ${conversationId}, ${unread} unread`);
  await client.emit("message:read", { conversationId });
}

try {
  await enter();
} catch ({ code, message }) {
  console.log(`* cannot enter ${conversationId}: ${message} (${code})`);
  process.exit(1);
}
for await (const content of createInterface({ input: process.stdin })) {
  if (content === "") continue;
  try {
    await client.emit("message:send", { conversationId, content });
  } catch ({ code, message }) {
    console.log(`* not sent: ${message} (${code})`);
  }
}
client.close();
