// Requests to the server of this page.
import { useEffect, useState } from "./vendor/htm-preact.js";

const KEY = "embedding-service key"; // in the storage of this tab alone
const folder = new URL(".", document.baseURI); // the page may be under a gateway's prefix

export const apiKey = () => sessionStorage.getItem(KEY) || "";
export const setApiKey = (key) => sessionStorage.setItem(KEY, key);
export const addressOf = (path) => new URL(path.slice(1), folder).href;

/** An error response of the server: its message, its code and the index of the bad input. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body.error?.message || body.error || `the server answered with status ${status}`);
    Object.assign(this, { status, code: body.code, index: body.index });
  }
}

/** Send a request {method, path, body}; returns the response. Raises ApiError. */
export async function send({ method = "POST", path, body }, signal) {
  const headers = body ? { "content-type": "application/json" } : {};
  if (apiKey()) headers.authorization = `Bearer ${apiKey()}`;
  const response = await fetch(addressOf(path), {
    method, headers, signal, body: body && JSON.stringify(body),
  });
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})));
  return response;
}

export const sendJson = async (request, signal) => (await send(request, signal)).json();

/** Decode the base64 of little-endian float32 numbers. */
export function floats(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

/** Embed texts; returns one Float32Array for each. */
export async function embed(inputs, signal) {
  const rows = await sendJson(embedRequest(inputs, { encoding_format: "base64" }), signal);
  return rows.map(floats);
}

export const embedRequest = (inputs, options = {}) => ({ path: "/embed", body: { inputs, ...options } });

/**
 * Run `load(signal)` a moment after `inputs` change, and stop the run before.
 * Returns {data, error, loading}; data stays that of the last run until the next is done.
 */
export function useLoad(load, inputs, delay = 250) {
  const [result, setResult] = useState({ loading: true });
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
  }, inputs);
  return result;
}
