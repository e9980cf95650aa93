// Frame of an old service in Node: it answers the requests of a test with what Redis replies.
//
// In:  {"id", "do": "run", "words"}, {"id", "do": "call", "function", "arguments"}, {"id", "do": "subscribe", "channel"}
// Out: {"id", "answer"} or {"id", "error"}, and {"source": channel, "event": "message", "args": [message]}
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';

const Redis = createRequire(process.env.NODE_PACKAGES)('ioredis');
const say = (it) => process.stdout.write(JSON.stringify(it) + '\n');

// Opens a connection of the service, with the options that the document gives.
export const connect = (options = {}) =>
  new Redis(process.env.REDIS_URL, { connectionName: process.env.CONNECTION_NAME, ...options });

const parse = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

// Answers requests until the test ends. `client` runs commands, `subscriber` listens, `functions` are the service's own.
export async function serve({ client, subscriber, functions }) {
  subscriber.on('message', (channel, message) => say({ source: channel, event: 'message', args: [parse(message)] }));
  const actions = {
    run: ({ words: [name, ...rest] }) => client.call(name, ...rest),
    call: ({ function: name, arguments: given }) => functions[name](...given),
    subscribe: ({ channel }) => subscriber.subscribe(channel),
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, do: action, ...rest } = JSON.parse(line);
    Promise.resolve()
      .then(() => actions[action](rest))
      .then(
        (answer) => say({ id, answer: answer ?? null }),
        (error) => say({ id, error: String(error) }),
      );
  }
  process.exit(0);
}
