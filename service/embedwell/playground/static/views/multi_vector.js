// A query against a document, token by token (late interaction).
import { html, useMemo } from "../vendor/htm-preact.js";
import { floats, sendJson, useLoad } from "../api.js";
import { Bars } from "../bars.js";
import { Heatmap } from "../heatmap.js";
import { CopyButtons, Results, Status, TextArea, Truncated } from "../parts.js";
import { useUrlState } from "../url_state.js";
import { dot, norm } from "../vector_math.js";

const DEFAULTS = { query: "How many people live in Berlin?", document: "Berlin is the capital of Germany. The city has 3.85 million inhabitants." };
const UNIT = 1e-3; // tolerance for the length of a vector whose products are cosines

const tokensRequest = (inputs, role) => ({ path: "/embed", body: { inputs, outputs: ["multi"], input_type: role, on_overflow: "end" } });

/** The tokens of a text that have a vector, [{name, vector}], and whether the text was truncated. */
async function readVectors(text, role, signal) {
  const request = tokensRequest(text, role);
  const { multi, token_ids: [ids], dimensions, inputs } = await sendJson({ ...request, body: { ...request.body, encoding_format: "base64" } }, signal);
  const numbers = floats(multi[0]);
  const names = ids.length ? await sendJson({ path: "/decode", body: { ids: ids.map((id) => [id]), skip_special_tokens: false } }, signal) : [];
  return { truncated: inputs[0].truncated, tokens: names.map((name, i) => ({ name: name.trim() || "∅", vector: numbers.subarray(i * dimensions, (i + 1) * dimensions) })) };
}

async function compare(query, document, signal) {
  const [first, second] = await Promise.all([readVectors(query, "query", signal), readVectors(document, "document", signal)]);
  if (!first.tokens.length || !second.tokens.length) throw new Error(`The ${first.tokens.length ? "document" : "query"} has no token with a vector.`);
  const rows = first.tokens.map(({ vector }) => second.tokens.map((token) => dot(vector, token.vector)));
  const isCosine = [...first.tokens, ...second.tokens].every(({ vector }) => Math.abs(norm(vector) - 1) < UNIT);
  return { first, second, rows, isCosine };
}

export default function MultiVector({ theme }) {
  const [state, update] = useUrlState("multi_vector", DEFAULTS);
  const ready = state.query.trim() !== "" && state.document.trim() !== "";
  const result = useLoad((signal) => (ready ? compare(state.query, state.document, signal) : null), [state.query, state.document]);
  const data = ready && result.data;
  return html`
    <p class="lead">Each token has a vector. For each token of the query, the highest cosine with a token of the document counts, and the score (MaxSim) is the
      sum of these cosines. Some models append tokens such as [MASK] to a query, which stand for words that it lacks.</p>
    <${TextArea} label="Query" rows=${1} value=${state.query} onInput=${(query) => update({ query })} />
    <${TextArea} label="Document" rows=${4} value=${state.document} onInput=${(document) => update({ document })} />
    <${Status} ...${result} />
    <${Results} stale=${result.error}>
      ${!ready && html`<p class="hint">Type a query and a document to compare them.</p>`}
      ${data && html`<${Truncated} count=${[data.first, data.second].filter((input) => input.truncated).length} />
        <${Matches} data=${data} theme=${theme} />
        <${CopyButtons} requests=${[tokensRequest(state.query, "query"), tokensRequest(state.document, "document")]} />`}
    <//>`;
}

function Matches({ data: { first, second, rows, isCosine }, theme }) {
  const best = useMemo(() => rows.map((row) => row.indexOf(Math.max(...row))), [rows]);
  const scores = rows.map((row, i) => row[best[i]]), sum = scores.reduce((total, score) => total + score, 0);
  const name = isCosine ? "cosine" : "product", range = isCosine ? [-1, 1] : undefined;
  const items = rows.map((_, i) => ({ name: html`${first.tokens[i].name} <span class="model">→</span> ${second.tokens[best[i]].name}`, value: scores[i] }));
  return html`
    <p class="finding">MaxSim <b>${sum.toFixed(3)}</b>: the sum of ${rows.length} tokens' best ${name}s, ${(sum / rows.length).toFixed(3)} in the mean.</p>
    <div class="columns">
      <section><h2>Best match of each query token</h2>
        <${Bars} label="Best match of each query token" items=${items} low=${Math.min(0, ...scores)} high=${isCosine ? 1 : Math.max(...scores)} /></section>
      <section><h2>All pairs of tokens</h2>
        <${Heatmap} rows=${rows} signed range=${range} theme=${theme} height=${18 * rows.length} title=${`${isCosine ? "Cosine" : "Product"} of each pair`}
          rowName="query token" columnName="document token" rowLabel=${(i) => `“${first.tokens[i].name}”`} columnLabel=${(j) => `“${second.tokens[j].name}”`}
          axes=${{ rows: first.tokens.map(({ name }) => name), columns: second.tokens.map(({ name }) => name), framed: best }}
          help="Each row is a token of the query. A frame marks its best match." /></section>
    </div>`;
}
