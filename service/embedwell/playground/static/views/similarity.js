// Compare two lists of texts: the matrix, the ranking, and the effect of shorter or smaller vectors.
import { html, useState } from "../vendor/htm-preact.js";
import { embed, embedRequest, sendJson, useLoad } from "../api.js";
import { Heatmap } from "../heatmap.js";
import { CopyButtons, Results, Select, Slider, Status, TextArea, Truncated, clipped, lines, short } from "../parts.js";
import { ScoreTable } from "../score_table.js";
import { useUrlState } from "../url_state.js";
import { cut, mean, metrics, outputTypes, ranking } from "../vector_math.js";

const DEFAULTS = {
  queries: "How do I reset my password?\nWhere is my parcel?\nCan I get my money back?",
  texts: "Choose “Forgot password” on the sign-in page.\nTrack a delivery with the number in your e-mail.\nRefunds are paid within five working days.\nOur office is closed on Sundays.\nParcels are delivered from Monday to Saturday.",
  metric: "cosine",
  dimensions: 0, // 0: all
  type: "float32",
  best: 3,
};
const METRICS = {
  cosine: "Cosine",
  dot: "Dot product",
  euclidean: "Negative Euclidean distance",
  manhattan: "Negative Manhattan distance",
};
const COSINES = [-1, 1]; // a fixed range keeps the colours of cosines comparable
const LARGE = 24; // from so many texts on a side on, a heat map is clearer than a table

export default function Similarity({ theme }) {
  const [state, update] = useUrlState("similarity", DEFAULTS);
  const a = lines(state.queries), b = lines(state.texts);
  const ready = a.length > 0 && b.length > 0;
  const request = { path: "/similarity", body: { a, b, metric: state.metric } };
  const result = useLoad(async (signal) => {
    if (!ready) return null;
    const detailed = { ...request, body: { ...request.body, details: true } };
    const [{ scores, inputs }, vectors] = await Promise.all([sendJson(detailed, signal), embed([...a, ...b], signal)]);
    return { a, b, scores, vectors, metric: state.metric, cut: [...inputs.a, ...inputs.b].filter((input) => input.truncated).length };
  }, [state.queries, state.texts, state.metric]);
  const allowed = useLoad(async (signal) => (await sendJson({ method: "GET", path: "/info" }, signal)).dimensions.allowed, [], 0).data;
  const data = ready && result.data, full = data ? data.vectors[0].length : undefined;
  const dimensions = Math.min(state.dimensions || full, full);
  const changed = full && (dimensions < full || state.type !== "float32");
  const scores = changed ? shrunkScores(data, dimensions, state.type) : data?.scores;
  return html`
    <p class="lead">Compare every text of one list with every text of the other. Then choose fewer dimensions or a smaller output type, and check
      whether the best matches stay the same.</p>
    <div class="columns">
      <${TextArea} label="Queries, one per line" rows=${5} value=${state.queries} onInput=${(queries) => update({ queries })} />
      <${TextArea} label="Texts, one per line" rows=${5} value=${state.texts} onInput=${(texts) => update({ texts })} />
    </div>
    <div class="controls">
      <${Select} label="Metric" value=${state.metric} options=${Object.entries(METRICS).map(([name, text]) => [name, text.replace(" distance", "")])} onChange=${(metric) => update({ metric })} />
      ${full && html`<${Slider} label="Dimensions" value=${dimensions} min=${8} max=${full} step=${8} onInput=${(value) => update({ dimensions: value >= full ? 0 : value })} />`}
      <${Select} label="Numbers" value=${state.type} options=${Object.keys(outputTypes)} onChange=${(type) => update({ type })} />
      <${Slider} label="Matches shown" value=${state.best} min=${1} max=${10} onInput=${(best) => update({ best })} />
    </div>
    <${Status} ...${result} />
    <${Results} stale=${result.error}>
      ${!ready && html`<p class="hint">Type a query and a text to compare them.</p>`}
      ${data && html`
        <${Truncated} count=${data.cut} end="the rest is not compared" />
        ${changed && html`<${Change} data=${data} scores=${scores} dimensions=${dimensions} type=${state.type} best=${state.best} />`}
        <${Matrix} a=${data.a} b=${data.b} scores=${scores} theme=${theme} metric=${data.metric} />
        <${Best} a=${data.a} b=${data.b} scores=${scores} before=${data.scores} count=${state.best} />
        <${CopyButtons} requests=${[changed ? smallRequest([...data.a, ...data.b], dimensions, full, state.type, allowed) : request]} />`}
    <//>`;
}

/** The request for smaller vectors, from which POST /similarity computes scores. */
function smallRequest(inputs, dimensions, full, type, allowed) {
  const offered = dimensions === full || allowed === "any" || allowed?.includes(dimensions);
  return {
    ...embedRequest(inputs, { ...(offered && dimensions < full ? { dimensions } : {}), ...(type === "float32" ? {} : { output_dtype: type }) }),
    comment: offered ? "Vectors of the queries, then of the texts; send them to POST /similarity as a and b."
      : `This server does not truncate vectors to ${dimensions} dimensions unless EMBEDWELL_DIMENSIONS allows it, so these are complete. Take the first ${dimensions} numbers, normalise, then round.`,
  };
}

/** The scores of truncated and rounded vectors, computed here as the server would. */
function shrunkScores({ a, vectors, metric }, dimensions, type) {
  const small = vectors.map((vector) => outputTypes[type](dimensions < vector.length ? cut(vector, dimensions) : vector));
  return small.slice(0, a.length).map((query) => small.slice(a.length).map((text) => metrics[metric](query, text)));
}

function Change({ data, scores, dimensions, type, best }) {
  const bits = { float32: 32, int8: 8, binary: 1 }[type], full = data.vectors[0].length;
  const bytes = Math.ceil((dimensions * bits) / 8), kept = data.scores.map((row, i) => {
    const top = new Set(ranking(row).slice(0, best));
    return ranking(scores[i]).slice(0, best).filter((j) => top.has(j)).length / top.size;
  });
  const same = data.scores.filter((row, i) => ranking(row)[0] === ranking(scores[i])[0]).length;
  return html`<div class="tiles" aria-label="Effect of the smaller vectors">
    <div class="tile"><b>${bytes}</b><span>bytes per vector instead of ${full * 4} (${short((full * 4) / bytes)} times fewer)</span></div>
    <div class="tile"><b>${same} of ${data.a.length}</b><span>queries keep their best match</span></div>
    <div class="tile"><b>${Math.round(100 * mean(kept))} %</b><span>of the best ${best} matches stay among the best ${best}, in any order</span></div>
  </div>`;
}

function Matrix({ a, b, scores, theme, metric }) {
  const isCosine = metric === "cosine", title = `${METRICS[metric]} of every pair${/^Neg/.test(METRICS[metric]) ? " (higher is nearer)" : ""}`;
  if (a.length > LARGE || b.length > LARGE) {
    return html`<${Heatmap} title=${title} rows=${scores} signed=${isCosine} range=${isCosine && COSINES} theme=${theme} rowName="query" columnName="text"
      rowLabel=${(i) => `“${clipped(a[i])}”`} columnLabel=${(j) => `“${clipped(b[j])}”`} height=${Math.min(480, 14 * a.length + 40)} />`;
  }
  const all = scores.flat(), [low, high] = isCosine ? COSINES : [Math.min(...all), Math.max(...all)];
  return html`<${ScoreTable} title=${title} rows=${a} columns=${b} scores=${scores} low=${low} high=${high} signed=${isCosine} />`;
}

function Best({ a, b, scores, before, count }) {
  return html`<section><h2>Best matches</h2><div class="columns">${a.map((query, i) => {
    const places = ranking(before[i]);
    return html`<div><strong dir="auto">${clipped(query, 160)}</strong><ol>${ranking(scores[i]).slice(0, count).map((j, rank) => {
      const moved = places.indexOf(j) - rank;
      return html`<li><bdi>${clipped(b[j], 160)}</bdi> <span class="model">${scores[i][j].toFixed(3)}${moved ? `, was ${places.indexOf(j) + 1}.` : ""}</span></li>`;
    })}</ol></div>`;
  })}</div></section>`;
}
