// Adds belljar's token to each request of the conformance suite, which has no option for headers. All requests of Node's
// fetch and of undici pass the global dispatcher. Some scenarios use Node's http instead.
import http from "node:http";

const key = Symbol.for("undici.globalDispatcher.1");
const headers = { authorization: `Bearer ${process.env.BELLJAR_TOKEN}` };
// The first use of fetch makes the dispatcher.
await fetch("data:,").catch(() => {});
const plain = globalThis[key];
const added = (given) => {
  if (Array.isArray(given)) return [...given, ...Object.entries(headers).flat()];
  if (given && typeof given[Symbol.iterator] === "function") return [...given, ...Object.entries(headers)];
  return { ...given, ...headers };
};
globalThis[key] = new Proxy(plain, {
  get: (target, name) =>
    name === "dispatch"
      ? (options, handler) => target.dispatch({ ...options, headers: added(options.headers) }, handler)
      : Reflect.get(target, name, target),
});
const request = http.request;
http.request = (...given) => {
  const options = given.find((one) => one && typeof one === "object" && !(one instanceof URL));
  if (options) options.headers = { ...options.headers, ...headers };
  return request(...given);
};
