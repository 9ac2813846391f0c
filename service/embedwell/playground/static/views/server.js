// The server: its models and its current load, from /info and /metrics.
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { addressOf, send, sendJson, useLoad } from "../api.js";
import { LineChart } from "../line_chart.js";
import { CopyButtons, Results, Status, short } from "../parts.js";
import { fragment } from "../url_state.js";

const PERIOD = 1000, KEPT = 60; // ms between samples, and the number that is kept: one minute

/** Parse Prometheus' text format, without the samples of other models: {name: [{labels, value}]}. */
export function parseMetrics(text, model) {
  const samples = {};
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries(Array.from((match[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g), ([, name, value]) => [name, value]));
    if (model && labels.model && labels.model !== model) continue;
    (samples[match[1]] ||= []).push({ labels, value: Number(match[3]) });
  }
  return samples;
}

const total = (samples, name, keep = () => true) => (samples[name] || []).filter(({ labels }) => keep(labels)).reduce((sum, { value }) => sum + value, 0);

/** Buckets of a histogram since an earlier reading: [[upper bound, cumulative count]]. */
function buckets(now, before, name) {
  const counts = new Map();
  for (const { labels, value } of now[`${name}_bucket`] || []) counts.set(labels.le, (counts.get(labels.le) || 0) + value);
  for (const { labels, value } of before[`${name}_bucket`] || []) counts.set(labels.le, counts.get(labels.le) - value);
  return [...counts].map(([bound, count]) => [bound === "+Inf" ? Infinity : Number(bound), count]).sort(([a], [b]) => a - b);
}

/** A quantile as in Prometheus' histogram_quantile, in the histogram's unit; null without data. */
export function quantile(share, cumulative) {
  const all = cumulative.at(-1)?.[1];
  if (!all) return null;
  const i = cumulative.findIndex(([, count]) => count >= share * all), [bound, count] = cumulative[i];
  const [low, below] = i ? cumulative[i - 1] : [0, 0];
  return bound === Infinity ? low : low + (bound - low) * ((share * all - below) / (count - below || 1));
}

export default function Server({ model, models }) {
  const info = useLoad((signal) => sendJson({ method: "GET", path: "/info" }, signal), [model?.state], 0);
  const several = models.length > 1, { readings, error } = useReadings(several ? model?.name : undefined);
  const failure = error || info.error;
  return html`
    <p class="lead">The models of this server and its current load. The same numbers are at <a href=${addressOf("/info")}>/info</a> and, for
      Prometheus, at <a href=${addressOf("/metrics")}>/metrics</a>.</p>
    <${Status} error=${failure} loading=${info.loading && !info.data} />
    <${Results}><${Live} readings=${readings} error=${error} several=${several} /><//>
    ${several && html`<${Models} models=${models} chosen=${model} />`}
    <${Results} stale=${failure}>${info.data?.engine && html`<${Facts} info=${info.data} />`}<//>
    ${several && info.data && !info.data.engine && html`<p class="hint">“${info.data.model}” is not loaded; the next request for it loads it.</p>`}
    <${CopyButtons} requests=${[{ method: "GET", path: "/info" }, { method: "GET", path: "/metrics", text: true }]} />`;
}

/** Read /metrics every second while the page is visible. model: the model whose numbers are kept, if there are several. */
function useReadings(model) {
  const [state, setState] = useState({ readings: [] });
  useEffect(() => {
    const read = async () => {
      if (document.hidden) return;
      try {
        const samples = parseMetrics(await (await send({ method: "GET", path: "/metrics" })).text(), model);
        setState(({ readings }) => ({ readings: [...readings.slice(-KEPT), { time: performance.now() / 1000, samples }] }));
      } catch (error) {
        setState(({ readings }) => ({ readings, error }));
      }
    };
    read();
    const timer = setInterval(read, PERIOD);
    return () => clearInterval(timer);
  }, []);
  return state;
}

const isEmbedding = ({ path }) => !["/metrics", "/ready", "/live", "/info", "/v1/models", "other"].includes(path) && !path?.startsWith("/playground");

/** Rates at each second of the last minute; null if none was read. */
function lastMinute(readings, rates) {
  const slots = Array(KEPT + 1).fill(null);
  rates.forEach((rate, i) => {
    const age = Math.round(readings.at(-1).time - readings[i + 1].time);
    if (age <= KEPT) slots[KEPT - age] = rate;
  });
  return slots;
}

const age = (i) => (i === KEPT ? "now" : `${KEPT - i} s ago`);

function Live({ readings, error, several }) {
  if (readings.length < 2) return html`<p class="status">${error ? "" : "Reading /metrics …"}</p>`;
  const rate = (name, keep) => readings.slice(1).map(({ time, samples }, i) => // counters restart from 0 with the server
    Math.max(0, total(samples, name, keep) - total(readings[i].samples, name, keep)) / (time - readings[i].time));
  const rates = { requests: rate("embedwell_requests_total", isEmbedding), tokens: rate("embedwell_tokens_total") };
  const now = readings.at(-1).samples, window = buckets(now, readings.at(-Math.min(11, readings.length)).samples, "embedwell_request_seconds");
  const milliseconds = (share) => { const seconds = quantile(share, window); return seconds === null ? "–" : `${short(seconds * 1000)} ms`; };
  const state = error ? (error.status ? "unknown" : "unreachable") : total(now, "embedwell_ready") ? "ready" : "not ready";
  const tile = (value, name) => html`<div class="tile"><b>${value}</b><span>${name}</span></div>`;
  const measured = (value, name) => tile(error ? "–" : value, name);
  const chart = (name) => html`<${LineChart} title=${`${name[0].toUpperCase()}${name.slice(1)} per second`} xName="" xLabel=${age} low=${0} high=${Math.max(1, ...rates[name])}
    lines=${[{ name, values: lastMinute(readings, rates[name]) }]} />`;
  return html`<div class="tiles">
      ${tile(state, "engine")}
      ${measured(short(rates.requests.at(-1)), `requests per second${several ? ", all models" : ""}`)}
      ${measured(short(rates.tokens.at(-1)), "tokens per second")}
      ${measured(total(now, "embedwell_queued_tokens"), "tokens queued")}
      ${measured(milliseconds(0.5), "median latency, last 10\u00a0s")}
      ${measured(milliseconds(0.99), "99th percentile, last 10\u00a0s")}
      ${measured(total(now, "embedwell_engine_restarts"), "engine restarts")}
    </div>
    <div class=${error ? "columns stale" : "columns"}>${chart("requests")}${chart("tokens")}</div>`;
}

/** All models; each name links to the model's numbers. */
const Models = ({ models, chosen }) => html`<section><h2>Models</h2><div class="scroll" tabindex="0" role="region" aria-label="Models"><table>
  <thead><tr>${["name", "task", "outputs", "dimensions", "state"].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
  <tbody>${models.map((model) => html`<tr><th scope="row"><a href=${fragment("server", {}, model.name)} aria-current=${model === chosen ? "true" : undefined}>${model.name}</a></th>
    <td>${model.task}</td><td>${model.outputs.join(", ")}</td><td class="number">${model.dimensions}</td><td>${model.state}</td></tr>`)}</tbody>
</table></div></section>`;

/** The model and its precision from /info; the rest as JSON. */
function Facts({ info }) {
  const { engine } = info, facts = {
    model: info.model, family: engine.family, dimensions: engine.dim, "longest text": `${engine.max_length} tokens`,
    layers: engine.num_layers, pooling: info.pooling.join(", "), normalised: engine.normalize ? "yes" : "no",
    precision: engine.dtype, device: engine.device, kernels: engine.kernels || "torch", threads: engine.threads,
    fingerprint: engine.fingerprint, version: info.version,
  };
  return html`<div class="columns">
      <section><h2>Model</h2><dl class="facts">${Object.entries(facts).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl></section>
      ${engine.trials.length > 0 && html`<section><h2>Precision, as measured at the start</h2><table>
        <thead><tr>${["precision", "lowest cosine to float32", "median", "speed", ""].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
        <tbody>${engine.trials.map((trial) => html`<tr><th scope="row">${trial.dtype}</th><td class="number">${trial.cosine.toFixed(5)}</td>
          <td class="number">${trial.median_cosine.toFixed(5)}</td>
          <td class="number">${trial.speedup ? `${trial.speedup.toFixed(2)} ×` : ""}</td><td>${trial.dtype === engine.dtype ? "served" : ""}</td></tr>`)}</tbody>
      </table></section>`}
    </div>
    <details><summary>Everything that /info says</summary><pre class="scroll" tabindex="0">${JSON.stringify(info, null, 2)}</pre></details>`;
}
