export { connect, type ConnectionEvents, type ConnectOptions, type ParlorClient } from "./client.js";
export type * from "./events.js";
export type { ConversationPosition } from "./message-stream.js";
export { ParlorError } from "./parlor-error.js";
