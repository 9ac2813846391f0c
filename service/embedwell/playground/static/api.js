// Requests to the server of this page.
import { useEffect, useRef, useState } from "./vendor/htm-preact.js";

const KEY = "embedwell key"; // in the storage of this tab only
const folder = new URL(".", document.baseURI); // a gateway may add a prefix to the page's address

export const apiKey = () => sessionStorage.getItem(KEY) || "";
export const setApiKey = (key) => sessionStorage.setItem(KEY, key);
export const addressOf = (path) => new URL(path.slice(1), folder).href;

let model = { name: "", state: "" };

/** The model of all requests: its name, "" if requests have no name, and its state. */
export const selectModel = (name, state = "") => { model = { name, state }; };
export const isLoaded = () => !model.state || model.state === "loaded";

/** Add the selected model to a request: to the body of a POST, or to the address of /info. */
export function forModel(request) {
  if (!model.name) return request;
  if (request.path === "/info") return { ...request, path: `/info?model=${encodeURIComponent(model.name)}` };
  return request.body ? { ...request, body: { ...request.body, model: model.name } } : request;
}

/** An error response of the server: its message, its code and the index of the invalid input. */
export class ApiError extends Error {
  constructor(status, body) {
    const message = status === 401 ? (apiKey() ? "Invalid API key: correct it at the top" : "This server needs an API key: enter it at the top") : body.error?.message || body.error;
    super(message || `the server responded with status ${status}`);
    Object.assign(this, { status, code: body.code, index: body.index, retriable: status >= 429 });
  }
}

/** No response came. */
export class Unreachable extends Error {
  message = "The server cannot be reached";
  retriable = true;
}

/** Send a request {method, path, body} to the selected model; returns the response. Raises ApiError or Unreachable. */
export async function send(request, signal) {
  const { method = "POST", path, body } = forModel(request);
  const headers = body ? { "content-type": "application/json" } : {};
  if (apiKey()) headers.authorization = `Bearer ${apiKey()}`;
  let response;
  try {
    response = await fetch(addressOf(path), { method, headers, signal, body: body && JSON.stringify(body) });
  } catch (error) {
    if (signal?.aborted) throw error;
    setReachable(false);
    throw new Unreachable();
  }
  setReachable(true);
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})));
  return response;
}

const PROBE_PERIOD = 3000; // ms between attempts to reach the server again
const connection = new EventTarget();
let reachable = true;

/** Record whether the server was reached; if not, retry until it is. */
function setReachable(now) {
  if (now === reachable) return;
  reachable = now;
  connection.dispatchEvent(new Event("change"));
  const probe = () => reachable || fetch(addressOf("/live")).then(() => setReachable(true), () => setTimeout(probe, PROBE_PERIOD));
  if (!now) setTimeout(probe, PROBE_PERIOD);
}

/** Check whether the server can be reached. */
export const checkConnection = () => send({ method: "GET", path: "/live" }).catch(() => {});

/** Call `listen(reachable)` whenever the server is lost or found again. */
export function useConnection(listen) {
  const latest = useRef();
  latest.current = listen;
  useEffect(() => {
    const change = () => latest.current(reachable);
    connection.addEventListener("change", change);
    return () => connection.removeEventListener("change", change);
  }, []);
}

export const sendJson = async (request, signal) => (await send(request, signal)).json();

/** Decode the base64 of little-endian float32 numbers. */
export function floats(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

const BATCH = 64; // texts in a request

/** Embed texts in batches; returns a Float32Array for each. Calls `onProgress` with the number of finished texts. */
export async function embed(inputs, signal, onProgress = () => {}, options = {}) {
  const vectors = [];
  for (let i = 0; i < inputs.length; i += BATCH) {
    onProgress(i);
    const rows = await sendJson(embedRequest(inputs.slice(i, i + BATCH), { ...options, encoding_format: "base64" }), signal);
    vectors.push(...rows.map(floats));
  }
  return vectors;
}

export const embedRequest = (inputs, options = {}) => ({ path: "/embed", body: { inputs, ...options } });

/**
 * Run `load(signal)` after a delay when `inputs` change, and abort the previous run.
 * Returns {data, error, loading, retry}; data is that of the last run until the next one is done.
 * A run that could not reach the server is repeated when the server can be reached again.
 */
export function useLoad(load, inputs, delay = 250) {
  const [result, setResult] = useState({ loading: true });
  const [attempt, setAttempt] = useState(0);
  const retry = () => setAttempt((count) => count + 1);
  useConnection((reached) => reached && !result.loading && result.error instanceof Unreachable && retry());
  useEffect(() => {
    const controller = new AbortController();
    setResult((last) => ({ ...last, loading: true }));
    const timer = setTimeout(async () => {
      try {
        const data = await load(controller.signal);
        if (!controller.signal.aborted) setResult({ data, loading: false });
      } catch (error) {
        if (!controller.signal.aborted) setResult((last) => ({ data: last.data, error, loading: false }));
      }
    }, delay);
    return () => { clearTimeout(timer); controller.abort(); };
  }, [...inputs, attempt]);
  return { ...result, retry };
}
