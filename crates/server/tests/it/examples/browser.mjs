// Opens the page of the example in Chromium, waits for a text on it, and answers by the keyboard, as a person does.
// Without an answer, it only waits.
//
//   node browser.mjs <parlor> <token> <conversation> <expected text> [<answer> [<file for a screenshot>]]

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../../../", import.meta.url));
const { WebSocket } = await import(join(root, "web/node_modules/ws/wrapper.mjs"));
const [url, token, conversation, expected, answer, screenshot] = process.argv.slice(2);
const PATIENCE = 180_000;

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
const files = createServer((request, response) => {
  let file = join(root, normalize(new URL(request.url, "http://localhost").pathname));
  if (file.endsWith("/")) file += "index.html";
  const found = existsSync(file) && statSync(file).isFile();
  response.writeHead(found ? 200 : 404, { "content-type": types[extname(file)] ?? "text/plain" });
  if (found) createReadStream(file).pipe(response);
  else response.end();
}).listen(0, "127.0.0.1");
await once(files, "listening");

const profile = mkdtempSync(join(tmpdir(), "chromium-"));
const chromium = spawn("chromium", [
  "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", `--user-data-dir=${profile}`,
  "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--window-size=960,720", "about:blank",
], { stdio: ["ignore", "ignore", "pipe"] });

process.on("exit", () => chromium.kill("SIGKILL"));
setTimeout(() => {
  console.error(`the page did not show what was expected in ${PATIENCE} ms`);
  process.exit(1);
}, PATIENCE);

let address;
for await (const line of createInterface({ input: chromium.stderr })) {
  address = /^DevTools listening on (.*)$/.exec(line)?.[1];
  if (address) break;
}
const devtools = new WebSocket(address);
await once(devtools, "open");

let calls = 0;
const waiting = new Map();
devtools.on("message", (data) => {
  const { id, result, error, method, params } = JSON.parse(data);
  if (method === "Runtime.exceptionThrown") console.error(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
  if (method === "Log.entryAdded") console.error(params.entry.level, params.entry.text, params.entry.url ?? "");
  const [resolve, reject] = waiting.get(id) ?? [];
  if (error) reject?.(new Error(error.message));
  else resolve?.(result);
});
let sessionId;
const call = (method, params = {}) => new Promise((resolve, reject) => {
  calls += 1;
  waiting.set(calls, [resolve, reject]);
  devtools.send(JSON.stringify({ id: calls, method, params, sessionId }));
});
const until = (condition) => call("Runtime.evaluate", {
  awaitPromise: true,
  expression: `new Promise((done) => { const look = () => (${condition}) ? done() : setTimeout(look, 20); look(); })`,
});

const page = new URL(`http://127.0.0.1:${files.address().port}/examples/browser/`);
for (const [name, value] of Object.entries({ url, token, conversation })) page.searchParams.set(name, value);
const { targetId } = await call("Target.createTarget", { url: "about:blank" });
({ sessionId } = await call("Target.attachToTarget", { targetId, flatten: true }));
await Promise.all(["Runtime.enable", "Log.enable", "Page.enable"].map((method) => call(method)));
await call("Page.navigate", { url: page.href });
await until(`document.getElementById("chat")?.textContent.includes(${JSON.stringify(expected)})`);
if (answer) {
  await until(`document.activeElement?.name === "content"`);
  await call("Input.insertText", { text: answer });
  for (const type of ["keyDown", "keyUp"]) await call("Input.dispatchKeyEvent", { type, key: "Enter", code: "Enter", text: "\r", windowsVirtualKeyCode: 13 });
  await until(`[...document.querySelectorAll("#messages .own")].some((item) => item.textContent.includes(${JSON.stringify(answer)}))`);
}
if (screenshot) {
  const { data } = await call("Page.captureScreenshot", { format: "png" });
  writeFileSync(screenshot, Buffer.from(data, "base64"));
}

// The child processes of Chromium also write to the profile and to stderr, which closes when the last of them has ended.
const ended = once(chromium, "close");
chromium.stderr.resume();
chromium.kill();
await ended;
rmSync(profile, { recursive: true, force: true });
process.exit(0);
