// Calls of the API through the proxy, and one way to ask again and again without being a nuisance.
import { signal } from "@preact/signals";

const busySeconds = 2;
const idleSeconds = 15;
// Nobody has touched the page for so long: it is asked less often.
const idleAfterSeconds = 120;
let touchedAt = Date.now();
for (const kind of ["pointermove", "keydown", "wheel", "touchstart"]) {
  addEventListener(kind, () => (touchedAt = Date.now()), { passive: true });
}

// Why the page does not hear of the API; null: it does.
export const trouble = signal(null);
export const heardAt = signal(null);

export class Problem extends Error {
  constructor(status, answer, retryAfter) {
    const fields = (answer.errors || []).map((one) => `${one.field}: ${one.message}`);
    // API Gateway's own refusals have a message and no more.
    const detail = answer.detail || answer.message || "";
    super([detail || answer.title || `HTTP ${status}`, ...fields].join("\n"));
    this.status = status;
    this.title = answer.title || (answer.message ? "AWS refused the call" : "The call failed");
    this.detail = detail;
    this.fields = answer.errors || [];
    this.nextStep = answer.nextStep || "";
    this.retryAfter = retryAfter;
  }
}

export const query = (given) => {
  const pairs = Object.entries(given).filter(([, value]) => value != null && value !== "");
  const text = new URLSearchParams(pairs.flatMap(([name, value]) =>
    [].concat(value).map((one) => [name, one]))).toString();
  return text ? `?${text}` : "";
};

export const segment = (text) => encodeURIComponent(text).replaceAll("%3A", ":");

const kept = new Map();

// The answer; of a GET with an ETag that nothing changed for, the very same object.
export async function call(method, path, { body, headers = {}, signal: stop } = {}) {
  const before = method === "GET" ? kept.get(path) : null;
  const given = { ...headers };
  if (before) given["if-none-match"] = before.etag;
  const text = typeof body === "string";
  if (body !== undefined) given["content-type"] = text ? "text/plain" : "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: given,
      body: body === undefined || text ? body : JSON.stringify(body),
      signal: stop,
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, {
      title: "The console does not answer",
      detail: "Is `trainyard console` still running in its terminal?",
      nextStep: `If not: trainyard console --port ${location.port}. Open its link in this ` +
        "browser, and this page goes on.",
    });
  }
  if (answer.status === 304 && before) return before.value;
  let value = {};
  try {
    value = await answer.json();
  } catch {
    if (answer.ok) value = {};
  }
  if (!answer.ok) {
    throw new Problem(answer.status, value, Number(answer.headers.get("retry-after")) || null);
  }
  const etag = answer.headers.get("etag");
  if (etag && method === "GET") {
    kept.delete(path);
    kept.set(path, { etag, value });
    if (kept.size > 64) kept.delete(kept.keys().next().value);
  }
  return value;
}

// The state that the page saw last, as the API names it.
export const etagOf = (path) => kept.get(path)?.etag;

// Counts what the page has changed: what is shown is read anew then.
export const changes = signal(0);

// A change. The header is one that no form of another page can send; the key makes it one change,
// however often it is sent.
export async function change(method, path, { body, key, etag } = {}) {
  const headers = { "x-trainyard-console": "1" };
  if (key) headers["idempotency-key"] = key;
  if (etag) headers["if-match"] = etag;
  const answer = await call(method, path, { body, headers });
  if (key) changes.value += 1;
  return answer;
}

export const get = (path, given = {}, options) => call("GET", path + query(given), options);

export async function all(path, field, given = {}, most = 1000) {
  const found = [];
  let nextToken = null;
  do {
    const page = await get(path, { limit: 100, ...given, nextToken });
    found.push(...page[field]);
    nextToken = page.nextToken;
  } while (nextToken && found.length < most);
  return found;
}

const pause = (seconds, stop) =>
  new Promise((done) => {
    const timer = setTimeout(done, seconds * 1000);
    stop.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

const visible = (stop) =>
  new Promise((done) => {
    if (!document.hidden || stop.aborted) return done();
    const look = () => {
      if (document.hidden && !stop.aborted) return;
      document.removeEventListener("visibilitychange", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    stop.addEventListener("abort", look, { once: true });
  });

// Do the work until the function that is returned is called, or the work answers false.
// Every 2 s while somebody looks, every 15 s when the page is left alone, never while it is hidden;
// a refusal for being too many is obeyed, and failures make it slower. What is not there, or is
// asked for wrongly, stays so; who may ask may change, by a new login or a console started anew.
export function poll(work, every = busySeconds) {
  const controller = new AbortController();
  const stop = controller.signal;
  (async () => {
    let failures = 0;
    while (!stop.aborted) {
      await visible(stop);
      if (stop.aborted) return;
      let wait = Date.now() - touchedAt > idleAfterSeconds * 1000 ? idleSeconds : every;
      try {
        if ((await work(stop)) === false) return;
        failures = 0;
        if (trouble.value) trouble.value = null;
        heardAt.value = Date.now();
      } catch (error) {
        if (stop.aborted) return;
        failures += 1;
        trouble.value = error;
        if ([400, 404].includes(error.status)) return;
        wait = Math.max(error.retryAfter || 0, Math.min(60, wait * 2 ** failures));
      }
      await pause(wait * (0.85 + 0.3 * Math.random()), stop);
    }
  })();
  return () => controller.abort();
}
