export { type Client, connect, type KitEvents, type Options } from "./client.js";
export { ParlorError } from "./error.js";
export type * from "./events.js";
export type { Position } from "./stream.js";
