// Position schemes as heat maps: the served model's own, and any other with adjustable parameters.
import { html, useState } from "../vendor/htm-preact.js";
import { sendJson, useLoad } from "../api.js";
import { Heatmap } from "../heatmap.js";
import { LineChart } from "../line_chart.js";
import { CopyButtons, Field, NumberField, Results, Select, Slider, Status, short } from "../parts.js";
import { useUrlState } from "../url_state.js";
import { cosine, mean } from "../vector_math.js";

const SCHEMES = {
  sinusoidal: "sinusoidal",
  rotary: "rotary (RoPE)",
  alibi: "ALiBi",
  relative: "buckets (T5)",
  mpnet: "buckets (MPNet)",
  disentangled: "disentangled (DeBERTa)",
  transformer_xl: "Transformer-XL",
};
const SCALINGS = ["default", "linear", "dynamic", "ntk", "yarn", "llama3"];
const DEFAULTS = {
  count: 64, scheme: "sinusoidal", dim: 64, base: 10000, interleaved: false, scaling: "default", factor: 4, original: 64,
  heads: 8, steepest: 8, causal: false, buckets: 32, max_distance: 128, bidirectional: true,
};
const LABELS = { // of parameters, in the controls and in the description of a scheme
  dim: "Dimensions", base: "Base", interleaved: "Interleaved pairs", scaling: "Scaling", factor: "Factor", original: "Trained length",
  heads: "Heads", steepest: "Least slope 2^−", causal: "Causal", buckets: "Buckets", max_distance: "Largest distance", bidirectional: "Both directions",
};
const LIMITS = { // minimum, maximum and step of numbers
  dim: [2, 1024, 2], base: [2, 1e7, "any"], factor: [1, 64, "any"], original: [8, 65536],
  heads: [1, 64], steepest: [1, 32, "any"], buckets: [4, 512, 2], max_distance: [8, 1024],
};
const OPTIONS = { // of each scheme; a scaling adds its own
  sinusoidal: ["dim", "base"],
  rotary: ["dim", "base", "interleaved", "scaling"],
  alibi: ["heads", "steepest", "causal"],
  relative: ["buckets", "max_distance", "bidirectional"],
  mpnet: ["buckets", "max_distance", "bidirectional"],
  disentangled: ["buckets", "max_distance"],
  transformer_xl: ["dim", "base"],
};
const SCALING_OPTIONS = {
  default: [], linear: ["factor"], dynamic: ["factor", "original"], ntk: ["factor"],
  yarn: ["factor", "original"], llama3: ["factor", "original"],
};

function schemeRequest(state) {
  const names = [...OPTIONS[state.scheme], ...(state.scheme === "rotary" ? SCALING_OPTIONS[state.scaling] : [])];
  const options = Object.fromEntries(names.map((name) => [name, state[name]]));
  return { path: "/positions", body: { scheme: state.scheme, count: state.count, ...options } };
}

export default function Positions({ theme }) {
  const [state, update] = useUrlState("positions", DEFAULTS);
  const own = { path: "/positions", body: { count: state.count } };
  const chosen = schemeRequest(state);
  return html`
    <p class="lead">Attention by itself sees tokens without an order. A position scheme encodes the order by vectors that are added to the input, by
      rotating queries and keys, or by numbers that are added to the scores. The served model's scheme comes first, then any other.</p>
    <${Options} state=${state} update=${update} />
    <div class="columns">
      <section><h2>This model</h2><${Encoding} request=${own} theme=${theme} /></section>
      <section><h2>For comparison: ${SCHEMES[state.scheme]}</h2>
        <${Encoding} request=${chosen} theme=${theme} />
        ${state.scheme === "rotary" && html`<${Scalings} state=${state} />`}
      </section>
    </div>
    <${CopyButtons} requests=${[own, chosen]} />`;
}

function Options({ state, update }) {
  const control = (name) => {
    const set = (value) => update({ [name]: value }), label = LABELS[name];
    if (name === "scaling") return html`<${Select} label=${label} value=${state.scaling} options=${SCALINGS} onChange=${set} />`;
    if (!LIMITS[name]) return html`<${Field} label=${label}><input type="checkbox" checked=${state[name]} onChange=${(event) => set(event.target.checked)} /><//>`;
    const [min, max, step] = LIMITS[name];
    return html`<${NumberField} label=${label} value=${state[name]} min=${min} max=${max} step=${step} onInput=${set} />`;
  };
  const names = [...OPTIONS[state.scheme], ...(state.scheme === "rotary" ? SCALING_OPTIONS[state.scaling] : [])];
  return html`<div class="controls">
    <${Slider} label="Positions" value=${state.count} min=${8} max=${256} step=${8} onInput=${(count) => update({ count })} />
    <${Select} label="Compare with" value=${state.scheme} options=${Object.entries(SCHEMES)} onChange=${(scheme) => update({ scheme })} />
    ${names.map((name) => html`<div key=${name}>${control(name)}</div>`)}
  </div>`;
}

/** Describe a parameter in the words of the controls: “base 10000”. */
function described([name, value]) {
  const label = LABELS[name].toLowerCase();
  return `${label}${label.endsWith("−") ? "" : " "}${typeof value === "number" ? short(value) : typeof value === "boolean" ? (value ? "yes" : "no") : value}`;
}

/** One scheme: its description, its tables as heat maps, and its effect by distance as a line. */
function Encoding({ request, theme }) {
  const result = useLoad((signal) => sendJson(request, signal), [JSON.stringify(request)]);
  const table = result.data;
  return html`<div><${Status} ...${result} />
    <${Results} stale=${result.error}>${table && html`
      <p class="readout"><strong>${SCHEMES[table.scheme] || table.scheme}</strong> ${Object.entries(table.parameters).filter(([name]) => name in LABELS).map(described).join(", ")}</p>
      ${table.scheme === "none" && html`<p>The model has no positions: it reads tokens without an order.</p>`}
      ${table.cos && html`<${Rotary} table=${table} theme=${theme} />`}
      ${table.bias && html`<${Bias} table=${table} theme=${theme} />`}
      ${table.buckets && html`<${Buckets} table=${table} theme=${theme} />`}
      ${table.vectors && html`<${Vectors} table=${table} theme=${theme} />`}`}<//></div>`;
}

function Vectors({ table, theme }) {
  const rows = table.vectors, labels = table.distances || table.positions;
  return html`
    <${Heatmap} title=${table.distances ? "Vector of each distance" : "Vector of each position"} rows=${rows} signed theme=${theme}
      rowName=${table.distances ? "distance" : "position"} columnName="dimension" rowLabel=${(i) => labels[i]}
      help=${`Each row is the vector of one ${table.distances ? "distance" : "position"}; the model can hardly distinguish rows that look alike.`} />
    ${table.scheme === "sinusoidal" && html`<${LineChart} title="Waves: some dimensions over the positions" xName="position" lines=${waves(rows)} low=${-1} high=${1}
      help="Fast waves distinguish neighbours; slow waves distinguish the start of a text from its end." />`}
    ${!table.distances && html`<${LineChart} title="Cosine of two positions, by their distance (mean)" xName="distance"
      lines=${[{ name: "cosine", values: byDistance(rows, cosine) }]} low=${Math.min(0, ...byDistance(rows, cosine))} high=${1}
      help="A steep fall means that near positions are easy to distinguish; a flat end means that far positions look the same." />`}`;
}

/** A few columns, from the fastest wave to the slowest. */
const waves = (rows) => [0, 1 / 8, 1 / 4, 1 / 2].map((share) => 2 * Math.floor((share * rows[0].length) / 2))
  .map((column) => ({ name: `dimension ${column}`, values: rows.map((row) => row[column]) }));

/** Mean of compare(rows[i], rows[i + distance]) for each distance up to half of the rows. */
const byDistance = (rows, compare) => Array.from({ length: Math.ceil(rows.length / 2) + 1 }, (_, distance) => distance)
  .filter((distance) => distance < rows.length)
  .map((distance) => mean(rows.slice(0, rows.length - distance).map((row, i) => compare(row, rows[i + distance]))));

/** Score of equal queries and keys at a distance: the mean cosine of the angles between them. */
const rotaryDecay = ({ cos, sin }) => cos.map((row, i) => mean(row.map((value, pair) => value * cos[0][pair] + sin[i][pair] * sin[0][pair])));

const Rotary = ({ table, theme }) => html`
  <${Heatmap} title="Cosine of each pair's angle" rows=${table.cos} signed theme=${theme} rowName="position" columnName="pair"
    help="Each pair of dimensions is rotated by an angle that grows with the position: fast in the first columns, slowly in the last." />
  <${Heatmap} title="Sine of each pair's angle" rows=${table.sin} signed theme=${theme} rowName="position" columnName="pair"
    help="As above: a column that changes from row to row distinguishes neighbours." />
  <${LineChart} title="Score of equal vectors, by their distance" xName="distance" lines=${[{ name: "score", values: rotaryDecay(table) }]} help=${DECAY} />`;
const DECAY = "The score of two equal vectors at a distance. If it falls, near tokens count more.";

function Bias({ table, theme }) {
  const [head, setHead] = useState(0);
  const heads = table.bias.length, chosen = Math.min(head, heads - 1);
  return html`<${Slider} label="Head" value=${chosen} max=${heads - 1} onInput=${setHead} />
    <${Heatmap} title=${`Added to the scores of head ${chosen}${table.slopes ? `, slope ${Number(table.slopes[chosen].toPrecision(4))}` : ""}`} rows=${table.bias[chosen]}
      signed=${!table.slopes} theme=${theme} rowName="query" columnName="key" height=${300}
      help="The number that is added to the score of a query (row) and a key (column). The lower it is, the less the key counts." />
    <${LineChart} title="Added for a key at a distance, by head" xName="distance" labelled
      help="A head with a steep line attends to near tokens only; a head with a flat line attends to the whole text."
      lines=${table.bias.slice(0, 8).map((rows, i) => ({ name: `head ${i}${table.slopes ? `, slope ${short(table.slopes[i])}` : ""}`, values: [...rows.at(-1)].reverse() }))} />`;
}

function Buckets({ table, theme }) {
  const last = [...table.buckets.at(-1)].reverse();
  return html`<${Heatmap} title="Bucket of each pair" rows=${table.buckets} theme=${theme} rowName="query" columnName="key" height=${300}
      help="Cells of the same colour share one trained number, which is added to the score of the query and the key." />
    <${LineChart} title="Bucket of a key before the query" xName="distance" lines=${[{ name: "bucket", values: last }]}
      help="Each near distance has its own bucket; far distances share one, so the model does not distinguish them." />`;
}

/** The decay of rotary scores under every scaling, with the same factor. */
function Scalings({ state }) {
  const requests = SCALINGS.map((scaling) => schemeRequest({ ...state, scaling }));
  const result = useLoad(async (signal) => {
    const tables = await Promise.all(requests.map((request) => sendJson(request, signal)));
    return tables.map((table, i) => ({ name: SCALINGS[i], values: rotaryDecay(table) }));
  }, [JSON.stringify(requests)]);
  return html`<div>${result.error && html`<${Status} ...${result} />`}
    ${result.data && html`<${LineChart} title=${`Scalings compared, factor ${state.factor}`} xName="distance" lines=${result.data}
      help="A scaling stretches the fall over longer texts than the model was trained on. If lines coincide, the lower one is visible through the gaps of the upper one." />`}</div>`;
}
