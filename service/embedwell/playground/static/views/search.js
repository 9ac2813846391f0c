// Search: the texts that mean most nearly what a query says, though they may share no word with it.
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { Unreachable, embed, embedRequest, useConnection, useLoad } from "../api.js";
import { Bars } from "../bars.js";
import { textColumn } from "../columns.js";
import { CopyButtons, Field, Results, Status, clipped, short } from "../parts.js";
import { Source, readRows } from "../source.js";
import { useUrlState } from "../url_state.js";
import { cosine, ranking } from "../vector_math.js";

const SHOWN = 6, COPIED = 63; // texts
const PAUSE = 600; // ms after the last change of the texts
const QUERIES = ["I can't log in any more", "When do I get my money back?", "The box was crushed when it came", "Can I talk to a human?"];
const EXAMPLE = `Choose “Forgot password” on the sign-in page to set a new one.
Refunds reach your account within five working days.
If an item arrives damaged, send us a photo and we replace it.
Our support team answers calls from eight to six.
Follow your delivery with the number in the e-mail.
Parcels are brought from Monday to Saturday.
Orders above 50 euros are shipped free of charge.
You may send goods back for thirty days.
Pay by card, by bank transfer or on invoice.
Change your address under “My profile” before the order leaves us.
Gift cards are valid for three years.
The shop in the city is closed on Sundays.
Membership can be cancelled at the end of each month.
We store your data in Europe only.`;

let kept = { source: { text: EXAMPLE, name: "" }, index: null }; // survives a change of view; index: {source, model, texts, vectors}

export default function Search({ model }) {
  const [state, update] = useUrlState("search", { query: QUERIES[0] });
  const [source, setSource] = useState(kept.source);
  const { index, error, progress, retry } = useIndex(source, model.name);
  const query = state.query.trim();
  const search = useLoad(async (signal) => {
    if (!query || !index) return null;
    const start = performance.now(), [vector] = await embed([query], signal, undefined, { input_type: "query" });
    const scores = index.vectors.map((other) => cosine(vector, other));
    return { query, scores, order: ranking(scores).slice(0, SHOWN), ms: performance.now() - start };
  }, [query, index], 150);
  const data = query && index?.texts.length > 0 && search.data?.scores.length === index.texts.length && search.data;
  return html`
    <p class="lead">Ask in your own words. The model finds the texts with the nearest meaning, also those that share no word with the query.</p>
    <${Field} label="Query"><input type="search" class="query" dir="auto" value=${state.query} onInput=${(event) => update({ query: event.target.value })} /><//>
    <p class="examples">Try ${QUERIES.map((text) => html`<button type="button" aria-pressed=${text === state.query ? "true" : "false"} onClick=${() => update({ query: text })}>${text}</button> `)}</p>
    <${Status} error=${error || search.error} loading=${search.loading} retry=${error ? retry : search.retry}>
      ${progress && html`<span>${progress.label} <progress value=${progress.share} aria-label="Progress" /></span>`}
    <//>
    <${Results} stale=${error || search.error || index?.source !== source}>
      ${!query && html`<p class="hint">Type a query to search.</p>`}
      ${data && html`<${Matches} data=${data} texts=${index.texts} />`}
    <//>
    <details class="texts" open=${source.text !== EXAMPLE}><summary>Search your own texts</summary>
      <${Source} source=${source} example=${EXAMPLE} change=${(changed) => { kept = { ...kept, source: changed }; setSource(changed); }} /></details>
    ${data && html`<${CopyButtons} note=${source.text !== EXAMPLE && "The link does not contain your texts."}
      requests=${[embedRequest([query], { input_type: "query" }), embedRequest(index.texts.slice(0, COPIED), { input_type: "document" })]} />`}`;
}

/** The vectors of a source's texts, which are computed again when it or the model changes. */
function useIndex(source, model) {
  const [result, setResult] = useState({ index: kept.index?.model === model ? kept.index : null });
  const [attempt, setAttempt] = useState(0), first = useRef(true);
  const retry = () => setAttempt((count) => count + 1);
  useConnection((reached) => reached && result.error instanceof Unreachable && retry());
  useEffect(() => {
    if (kept.index?.source === source && kept.index.model === model) return setResult({ index: kept.index });
    const controller = new AbortController(), { signal } = controller;
    const show = (changed) => signal.aborted || setResult((last) => ({ index: last.index, ...changed }));
    const timer = setTimeout(async () => {
      try {
        const rows = await readRows(source, signal), column = textColumn(rows, Object.keys(rows[0] || {}));
        const texts = rows.map((row) => String(row[column] ?? "").trim()).filter(Boolean);
        const report = (done) => show({ progress: { label: `Embedded ${done} of ${texts.length} texts`, share: done / texts.length } });
        const vectors = await embed(texts, signal, report, { input_type: "document" });
        if (!signal.aborted) show({ index: (kept.index = { source, model, texts, vectors }) });
      } catch (error) {
        show({ error });
      }
    }, first.current ? 0 : PAUSE);
    first.current = false;
    return () => { clearTimeout(timer); controller.abort(); };
  }, [source, model, attempt]);
  return { ...result, retry };
}

const wordsOf = (text) => new Set(text.toLowerCase().match(/[\p{L}\p{N}]{4,}/gu));

/** The nearest texts, each with its cosine, and a note if a search for words would miss the first. */
function Matches({ data: { query, scores, order, ms }, texts }) {
  const words = wordsOf(query), isMissed = words.size > 0 && ![...wordsOf(texts[order[0]])].some((word) => words.has(word));
  const items = order.map((i, rank) => ({
    name: html`<b class="rank">${rank + 1}.</b> ${clipped(texts[i], 400)}`, value: scores[i],
    note: rank === 0 && isMissed && "has no word of the query: it is found by its meaning",
  }));
  return html`<section class="found"><h2>Nearest of ${texts.length.toLocaleString("en")} texts</h2>
    <p class="hint">Found in ${short(ms)} ms, network included. The numbers are cosines: 1 is the same meaning.</p>
    <${Bars} label="Nearest texts" wide items=${items} low=${0} high=${1} /></section>`;
}
