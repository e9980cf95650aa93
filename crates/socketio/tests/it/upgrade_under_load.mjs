// Upgrade from polling to WebSocket under load, with the JavaScript client. Every connection emits numbered events before,
// during and after the upgrade. Each echo and each acknowledgement must arrive once and in order.
// Usage: node upgrade_under_load.mjs <url> <connections> <events>. NODE_PACKAGES is the package.json of the packages.
import { createRequire } from "node:module";

const { io } = createRequire(process.env.NODE_PACKAGES)("socket.io-client");
const [url, connections, events] = [process.argv[2], +process.argv[3], +process.argv[4]];

function run(number) {
  return new Promise((resolve, reject) => {
    const socket = io(url, { forceNew: true, reconnection: false, timeout: 100_000, transports: ["polling", "websocket"] });
    const state = { sent: 0, back: 0, acked: 0, moved: -1 };
    const transport = () => socket.io.engine?.transport?.name;
    const fail = (why) => reject(new Error(`connection ${number}: ${why}, ${JSON.stringify(state)}, ${transport()}`));
    const timer = setTimeout(() => fail("timeout"), 120_000);
    // At least half of the events are sent after the upgrade, however long the upgrade takes.
    const last = () => (state.moved < 0 ? Infinity : Math.max(events, state.moved + events / 2));
    const bytes = (n) => Buffer.from([n & 255, 1, 2]);
    const done = () => {
      if (state.moved < 0 || state.sent < last() || state.back < state.sent || state.acked < state.sent) return;
      clearTimeout(timer);
      socket.disconnect();
      resolve(state);
    };
    const send = () => {
      for (let burst = 0; burst < 1 + (number % 5) && state.sent < last(); burst++) {
        const n = state.sent++;
        socket.emit("message", n, n % 7 ? "text €" : bytes(n));
        socket.emit("message-with-ack", n, (acked) => {
          if (acked !== n || acked !== state.acked) fail(`acknowledgement ${acked} of ${n}`);
          state.acked++;
          done();
        });
      }
      if (state.sent < last()) setTimeout(send, number % 4);
    };
    socket.on("message-back", (n, body) => {
      if (n !== state.back) fail(`event ${n}`);
      if (n % 7 ? body !== "text €" : Buffer.compare(Buffer.from(body), bytes(n))) fail(`body of ${n}`);
      state.back++;
      done();
    });
    // Registered before CONNECT, because the reply to CONNECT may arrive after the upgrade.
    socket.io.engine.once("upgrade", () => {
      state.moved = state.sent;
      done();
    });
    socket.on("connect", send);
    socket.on("disconnect", (reason) => {
      if (reason !== "io client disconnect") fail(`disconnected: ${reason}`);
    });
    socket.on("connect_error", (error) => fail(`not connected: ${error.message}`));
  });
}

const all = await Promise.allSettled(Array.from({ length: connections }, (_, n) => run(n)));
const failed = all.filter((one) => one.status === "rejected");
for (const one of failed.slice(0, 5)) console.error(one.reason.message);
const amid = all.filter((one) => one.value?.moved > 0).length;
console.log(JSON.stringify({ failed: failed.length, amid }));
process.exit(0);
