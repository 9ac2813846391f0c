// Rank documents by their relevance to a query.
import { html } from "../vendor/htm-preact.js";
import { send, useLoad } from "../api.js";
import { Bars } from "../bars.js";
import { CopyButtons, Results, Select, Status, TextArea, Truncated, clipped, lines, short } from "../parts.js";
import { useUrlState } from "../url_state.js";

const DEFAULTS = {
  query: "How do I reset my password?",
  documents: "Choose “Forgot password” on the sign-in page.\nPasswords have at least twelve characters.\nTrack a delivery with the number in your e-mail.\nRefunds are paid within five working days.\nOur office is closed on Sundays.",
  scores: "probability",
};
const ABOUT = {
  rerank: "A reranker reads the query and a document together, which is slower than comparing vectors, and more accurate. Retrieve documents by vectors, then rerank the best.",
  multi: "A multi-vector model compares each token of the query with each token of a document. The score (MaxSim) is the sum or the mean of the best cosines.",
  dense: "An embedding model ranks by the cosine between the vectors of the query and of each document. A reranker is more accurate, and slower.",
};
const SCORES = [["probability", "0 to 1"], ["logit", "logits"]];

/** The ranking, and the values in the response's headers. */
async function rank(request, signal) {
  const response = await send(request, signal), { results, inputs } = await response.json();
  return { results, inputs, documents: request.body.documents, tokens: response.headers.get("x-tokens"), ms: Number(response.headers.get("x-total-us")) / 1000 };
}

export default function Rerank({ model }) {
  const [state, update] = useUrlState("rerank", DEFAULTS);
  const documents = lines(state.documents), ready = state.query.trim() !== "" && documents.length > 0;
  const kind = ["multi", "dense"].find((output) => model?.outputs.includes(output)) || "rerank";
  const isReranker = kind === "rerank", raw = isReranker && state.scores === "logit";
  const request = { path: "/rerank", body: { query: state.query, documents, details: true, ...(raw ? { raw_scores: true } : {}) } };
  const result = useLoad(async (signal) => (ready ? { ...await rank(request, signal), raw } : null), [state.query, state.documents, raw]);
  const data = ready && result.data;
  return html`
    <p class="lead">${ABOUT[kind]}</p>
    <${TextArea} label="Query" rows=${1} value=${state.query} onInput=${(query) => update({ query })} />
    <${TextArea} label="Documents, one per line" rows=${6} value=${state.documents} onInput=${(documents) => update({ documents })} />
    ${isReranker && html`<div class="controls"><${Select} label="Scores" value=${state.scores} options=${SCORES} onChange=${(scores) => update({ scores })} /></div>`}
    <${Status} ...${result} />
    <${Results} stale=${result.error}>
      ${!ready && html`<p class="hint">Type a query and a document to rank it.</p>`}
      ${data && html`<${Truncated} count=${data.inputs.filter((input) => input.truncated).length} texts="document" end="the rest is not ranked" />
        <${Ranking} data=${data} fixed=${isReranker && !data.raw} />
        <${CopyButtons} requests=${[request]} />`}
    <//>`;
}

/** Bars of the ranking. fixed: whether scores are from 0 to 1; otherwise the range of the bars is that of the scores. */
function Ranking({ data: { results, inputs, documents, tokens, ms }, fixed }) {
  const scores = results.map((item) => item.relevance_score);
  const items = results.map(({ index, relevance_score: value }, rank) => ({
    name: html`<b class="rank">${rank + 1}.</b> ${clipped(documents[index], 400)}`, value,
    note: `line ${index + 1}, ${inputs[index].tokens} tokens read${inputs[index].truncated ? `, ✂ ${inputs[index].dropped} left out` : ""}`,
  }));
  return html`<section><h2>By relevance</h2>
    <p class="hint">${results.length} documents, ${tokens} tokens, in ${short(ms)} ms on the server.</p>
    <${Bars} label="Documents by relevance" wide items=${items} low=${fixed ? 0 : Math.min(0, ...scores)} high=${fixed ? 1 : Math.max(0, ...scores)} />
  </section>`;
}
