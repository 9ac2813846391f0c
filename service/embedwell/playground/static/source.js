// The texts of a view: typed, pasted, or from a file that the user drops or chooses.
import { html, useState } from "./vendor/htm-preact.js";
import { Field } from "./parts.js";

export const MAX_ROWS = 10_000;
const SHOWN = 100_000; // characters of longer texts that the field shows, where they cannot be changed

/** A field for texts and one for a file. source: {text, name}; name: a file's name, or "". change(source, isComplete): isComplete unless typed. */
export function Source({ source, example, change }) {
  const [over, setOver] = useState(false);
  const isLong = source.text.length > SHOWN, shown = source.text.slice(0, SHOWN);
  const read = async (file) => file && change({ text: await file.text(), name: file.name }, true);
  const origin = source.name || (source.text === example ? "the example" : "the text above");
  return html`<div class=${over ? "drop over" : "drop"} onDragOver=${(event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)}
      onDrop=${(event) => { event.preventDefault(); setOver(false); read(event.dataTransfer.files[0]); }}>
    <${Field} label="Texts: one per line, or a table with a header (commas, semicolons or tabs); or drop a file here">
      <textarea dir="auto" rows="5" value=${shown} readonly=${isLong} onInput=${(event) => change({ text: event.target.value, name: "" }, false)} />
    <//>
    ${isLong && html`<p class="hint">The first ${SHOWN.toLocaleString("en")} of ${source.text.length.toLocaleString("en")} characters, all of which are read.
      <button type="button" onClick=${() => change({ text: "", name: "" }, false)}>Type other texts</button></p>`}
    <${Field} label=${`File (CSV, TSV, JSONL or text, at most ${MAX_ROWS} rows) · now: ${origin}`}>
      <input type="file" accept=".csv,.tsv,.jsonl,.ndjson,.txt" onChange=${(event) => read(event.target.files[0])} />
    <//>
  </div>`;
}

/** The rows of a source: objects with a value for each column. */
export const readRows = async (source, signal) => (await inWorker({ action: "parse", ...source }, signal)).slice(0, MAX_ROWS);

/** Run an action in a new worker, which an abort terminates. */
export function inWorker(action, signal, onProgress = () => {}) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL("projection_worker.js", import.meta.url));
    const end = (settle, value) => { worker.terminate(); settle(value); };
    signal.addEventListener("abort", () => end(reject, new Error("cancelled")));
    worker.onerror = (event) => end(reject, new Error(event.message || "the worker could not start"));
    worker.onmessage = ({ data }) => {
      if (data.progress !== undefined) onProgress(data.progress);
      else if (data.error) end(reject, new Error(data.error));
      else end(resolve, data.result);
    };
    worker.postMessage(action);
  });
}
